"""The servers of Apache Kafka: the jars they are in, the memory they take, how they start."""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, UUID, uuid5

from jbodlab.cli.lab_state import NodeState
from jbodlab.vocabulary import kafka_uuid
from lab.cluster import kafka_metrics, layout
from lab.cluster.engine import CLASS_PATH_SEPARATOR, Engine, jar_folder
from lab.errors import LabError
from lab.machine import class_archive, processes
from lab.machine.kafka_jars import (
    NoKafkaError,
    fetched,
    java,
    of_variables,
    reason_in,
    require,
    run,
)
from lab.machine.processes import ServerUser

if TYPE_CHECKING:
    from jbodlab.metadata.records.schema import Record

LOGGER = "org.slf4j:slf4j-simple:{}"
LOGGER_VERSION = "1.7.36"
LOGGERS = re.compile(r"(slf4j-(nop|simple|reload4j|log4j12)|log4j-slf4j2?-impl|logback-classic)-.*")
"""Jars by which one or the other library writes the log; there may be one of them."""
LOGGER_OF_API = re.compile(r"slf4j-api-([0-9][0-9.]*)\.jar")
LOG_OPTIONS = tuple(
    f"-Dorg.slf4j.simpleLogger.{key}={value}"
    for key, value in (
        ("showDateTime", "true"),
        ("dateTimeFormat", "yyyy-MM-dd HH:mm:ss,SSS"),
        ("showThreadName", "false"),
        ("levelInBrackets", "false"),
        ("log.kafka.request.logger", "warn"),
        ("log.state.change.logger", "warn"),
        ("log.org.apache.kafka.common.config.AbstractConfig", "warn"),
    )
)
"""Lines begin as those of our own servers: time, level, name of the logger."""
SILENT = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"

FORMAT_DEADLINE_S = 300.0
STORAGE = "kafka.tools.StorageTool"
QUICK_START = ("-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Compile quickly, not well; map classes, and go on where they cannot be mapped."""
COLLECTOR = "-XX:+UseSerialGC"
"""Collect garbage on one thread."""
OTHER_COLLECTOR = re.compile(r"-XX:\+Use(?!SerialGC)[A-Za-z0-9]+GC")
"""The JVM refuses to start with two of them."""

CONTROLLER_HEAP_MIB = 192
BROKER_HEAP_MIB = 384
"""Of a cluster of up to three brokers: about 1.6 GiB for it with one controller."""
LARGE_CLUSTER_HEAP_MIB = 256
BROKERS_OF_SMALL_CLUSTER = 3


class KafkaServers:
    """Servers of the nodes of Apache Kafka.

    Attributes:
        engine: Which release, or which distribution.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        brokers: int = 3,
        controllers: Sequence[NodeState] = (),
        jvm_options: str = "",
    ) -> None:
        """Take what they are; the jars are looked for when a node is formatted or started.

        Args:
            engine: Which release, or which distribution.
            brokers: How many the cluster has, which share the memory.
            controllers: Those of the cluster, which may be brokers as well.
            jvm_options: Further options of the JVM, as in a shell; they come last.

        Raises:
            LabError: the options cannot be read.
        """
        self.engine = engine
        try:
            self._options = shlex.split(jvm_options)
        except ValueError as error:
            raise LabError(f"JVM options {jvm_options!r}: {error}") from error
        self._controllers = controllers
        self._is_small = brokers <= BROKERS_OF_SMALL_CLUSTER

    def command(self, node: NodeState) -> list[str]:
        """Return the command that runs a node."""
        heap = self._heap_mib(node)
        options = [f"-Xms{heap // 2}m", f"-Xmx{heap}m", *LOG_OPTIONS]
        options += [*kafka_metrics.options(node), *self._options]
        if not any(map(OTHER_COLLECTOR.fullmatch, self._options)):
            options.insert(0, COLLECTOR)
        java = self._java(*options, archive=class_archive.options(self.jars))
        return [*java, "kafka.Kafka", node.properties_file]

    def metrics_command(self, node: NodeState) -> list[str]:
        """Return what prints the states of a broker's directories from its metrics.

        Raises:
            NoKafkaError: the engine has no program that reads metrics.
        """
        if not any(kafka_metrics.TOOLS_JAR.fullmatch(jar.name) for jar in self.jars):
            raise NoKafkaError(f"{self.engine} has no kafka-tools jar, whose JmxTool reads metrics")
        java = self._java(
            COLLECTOR, kafka_metrics.READER_HEAP, SILENT, archive=class_archive.options(self.jars)
        )
        return [*java, *kafka_metrics.reader(node)] if node.metrics_port else []

    def format(
        self,
        node: NodeState,
        cluster_id: str,
        directories: Sequence[Path],
        security: Sequence[Record] = (),
    ) -> None:
        """Format the directories of a node that are not formatted yet, with Kafka's own tool.

        That tool knows no access control entries, and takes passwords on its command line, where
        others see them: what the metadata log begins with besides is added to its file.
        """
        del directories  # It finds them by itself.
        arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", node.properties_file]
        arguments += self._voters(node, cluster_id)

        def format_with(archive: Sequence[str]) -> None:
            run(
                f"{node.role} {node.node_id} could not be formatted",
                *self._java(COLLECTOR, SILENT, archive=archive),
                *(STORAGE, *arguments),
                deadline_s=FORMAT_DEADLINE_S,
            )

        # Nodes are formatted at once; one of them is enough.
        if node.node_id == self._controllers[0].node_id:
            class_archive.write(self.jars, format_with)
        format_with(class_archive.options(self.jars))
        if security:
            self._add(node, security)

    def _add(self, node: NodeState, security: Sequence[Record]) -> None:
        """Add records to those with which a node would begin the metadata log."""
        from jbodlab.metadata.log import snapshots
        from jbodlab.metadata.records.config_records import FeatureLevelRecord
        from jbodlab.metadata.records.metadata_version import FEATURE_NAME, versioned

        file = Path(node.metadata_log_dir) / "bootstrap.checkpoint"
        found = snapshots.read_bootstrap(file)
        (level,) = (
            each.feature_level
            for each, _ in found
            if isinstance(each, FeatureLevelRecord) and each.name == FEATURE_NAME
        )
        found += [versioned(each, level) for each in security]
        snapshots.write_bootstrap(file, found, created_ms=time.time_ns() // 1_000_000)

    def check(self, user: ServerUser, root: Path, variables: dict[str, str]) -> None:
        """Try, as the servers' user, that Java runs and that the jars can be read.

        Raises:
            NoKafkaError: they cannot be, with the reason.
        """
        read = ["head", "-qc", "1", *map(str, self.jars)]
        for command in ([java(), "-version"], read, ["ls", str(root)]):
            try:
                done = processes.run(command, user=user, environment=variables)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise NoKafkaError(f"uid {user.uid} cannot run {command[0]}: {error}") from error
            if done.returncode:
                raise NoKafkaError(
                    f"uid {user.uid}, as whom the servers run, cannot run {self.engine}: "
                    f"{reason_in(done.stderr)}{of_variables()}"
                )

    def _voters(self, node: NodeState, cluster_id: str) -> list[str]:
        """Return the arguments that name the first voters of a dynamic quorum (KIP-853)."""
        if not self.engine.has_dynamic_quorum:
            return []
        if node.node_id not in {each.node_id for each in self._controllers}:
            return ["--no-initial-controllers"]
        if len(self._controllers) == 1:
            return ["--standalone"]
        voters = (
            f"{each.node_id}@{layout.controller_address(each)}:"
            f"{kafka_uuid.to_text(directory_of_voter(cluster_id, each.node_id))}"
            for each in self._controllers
        )
        return ["--initial-controllers", ",".join(voters)]

    @cached_property
    def jars(self) -> list[Path]:
        """The jars that the servers are in; Maven fetches those of a release once.

        Raises:
            NoKafkaError: the jars, Java or Maven are missing.
        """
        require("java")
        return _jars(self.engine)

    def _heap_mib(self, node: NodeState) -> int:
        if node.role == "controller":
            return CONTROLLER_HEAP_MIB
        return BROKER_HEAP_MIB if self._is_small else LARGE_CLUSTER_HEAP_MIB

    def _java(self, *options: str, archive: Sequence[str]) -> list[str]:
        return [
            java(),
            *QUICK_START,
            *archive,
            *options,
            "-cp",
            CLASS_PATH_SEPARATOR.join(map(str, self.jars)),
        ]


def fetch(engines: Iterable[Engine]) -> None:
    """Fetch the jars of some engines, so that none is missing later; our own servers have none.

    Raises:
        NoKafkaError: the jars, Java or Maven are missing.
    """
    for one in engines:
        if one.is_kafka:
            KafkaServers(one).jars  # noqa: B018  # Looking for them fetches them.


def directory_of_voter(cluster_id: str, node_id: int) -> UUID:
    """Return the id of a controller's metadata directory; all nodes have to say the same one."""
    return uuid5(NAMESPACE_OID, f"{cluster_id}/{node_id}")


def _jars(engine: Engine) -> list[Path]:
    """Return the jars of an engine, with the library that writes the log to the output."""
    if engine.folder is None:
        artifacts = (
            f"org.apache.kafka:kafka_2.13:{engine.release}",
            f"org.apache.kafka:kafka-tools:{engine.release}",
            LOGGER.format(LOGGER_VERSION),
        )
        folder = fetched(f"engine-{engine.release}", artifacts=artifacts)
        found = sorted(folder.glob("*.jar"))
        return [jar for jar in found if _is_kept(jar, LOGGER_VERSION)]
    found = sorted(jar_folder(engine.folder).glob("*.jar"))
    versions = [match[1] for jar in found if (match := LOGGER_OF_API.fullmatch(jar.name))]
    if not versions:
        return found
    artifact = LOGGER.format(versions[0])
    logger = fetched(artifact.split(":", 1)[1].replace(":", "-"), artifacts=(artifact,))
    return [
        *(jar for jar in found if not LOGGERS.fullmatch(jar.name)),
        *(jar for jar in logger.glob("slf4j-simple-*.jar")),
    ]


def _is_kept(jar: Path, version: str) -> bool:
    return not LOGGERS.fullmatch(jar.name) or jar.name == f"slf4j-simple-{version}.jar"
