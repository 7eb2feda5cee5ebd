"""Metrics of Apache Kafka's brokers about log directories.

A broker shows them by JMX, which is a service of the JVM itself, switched on by properties. Kafka's
own JmxTool reads them, one process for each broker: no agent is loaded into a broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jbodlab.cli.lab_state import NodeState

TOOLS_JAR = re.compile(r"kafka-tools-\d.*\.jar")
READER_HEAP = "-Xmx32m"
JMX_TOOL = "org.apache.kafka.tools.JmxTool"
GAUGES = "kafka.log:type=LogManager,name=LogDirectoryOffline,*"
"""One gauge for each entry of `log.dirs`: 1 while it is offline, else 0 (LogManager)."""
PERIOD_MS = 250
_GAUGE = re.compile(r'name=LogDirectoryOffline,logDirectory="((?:[^"\\]|\\.)*)":Value')
_ESCAPED = re.compile(r'\\(["*?\\])')


class GaugeChange(NamedTuple):
    """A directory is offline or online since the look before.

    Attributes:
        wall_ms: When the reader looked, by the wall clock.
    """

    path: str
    is_offline: bool
    wall_ms: int


def options(node: NodeState) -> list[str]:
    """Return the options of the JVM by which a broker shows its metrics on its own host."""
    if not node.metrics_port:
        return []
    values = {
        "com.sun.management.jmxremote.port": node.metrics_port,
        # The same port for what the first connection names.
        "com.sun.management.jmxremote.rmi.port": node.metrics_port,
        "com.sun.management.jmxremote.host": node.host,
        "java.rmi.server.hostname": node.host,
        "com.sun.management.jmxremote.authenticate": "false",
        "com.sun.management.jmxremote.ssl": "false",
    }
    return [f"-D{key}={value}" for key, value in values.items()]


def reader(node: NodeState) -> list[str]:
    """Return the class and the arguments of the program that prints the gauges of a broker."""
    url = f"service:jmx:rmi:///jndi/rmi://{node.host}:{node.metrics_port}/jmxrmi"
    return [
        JMX_TOOL,
        *("--jmx-url", url, "--object-name", GAUGES, "--attributes", "Value"),
        *("--reporting-interval", str(PERIOD_MS)),
    ]


class GaugeLines:
    """Reads what JmxTool prints: a line with the names of the gauges, then a line for each look."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._offline: dict[str, bool] = {}

    def read(self, line: str) -> Iterator[GaugeChange]:
        """Yield what a line changes; at first, directories that are offline already."""
        if line.startswith('"time"'):
            self._paths = [_ESCAPED.sub(r"\1", text) for text in _GAUGE.findall(line)]
            return
        wall_ms, *values = line.strip().split(",")
        if not wall_ms.isdecimal() or len(values) != len(self._paths):
            return
        for path, value in zip(self._paths, values, strict=True):
            is_offline = value != "0"
            if is_offline != self._offline.get(path, False):
                yield GaugeChange(path, is_offline, int(wall_ms))
            self._offline[path] = is_offline
