"""Our commands and Kafka's tools as they move partitions, with the same results for tests."""

from __future__ import annotations

import json
import re
from typing import Protocol

from tests.cluster.commands import call, called, value
from tests.cluster.harness import Cluster
from tests.kafka.tools import LOG_DIRS, REASSIGN, KafkaTools

_STATES = (
    (r"Reassignment of partition (\S+) is completed\.", "done"),
    (r"Reassignment of partition (\S+) is still in progress\.", "moving"),
    (r"There is no active reassignment of partition (\S+), but ", "elsewhere"),
    (r"Reassignment of replica (\S+) completed successfully\.", "done"),
    (r"Reassignment of replica (\S+) is still in progress\.", "moving"),
    (r"Partition (\S+ on broker \d+) is not being moved from log dir", "elsewhere"),
)


class ReassignTool(Protocol):
    """A tool that moves partitions; throttles are in bytes per second."""

    def execute(self, file: str, *, throttle: int = 0, dirs_throttle: int = 0) -> None:
        """Start the reassignment of a file."""

    def cancel(self, file: str) -> None:
        """Stop it."""

    def states(self, file: str) -> dict[str, str]:
        """Verify it: the states by partition such as `foo-0`, or replica such as `foo-0-1`."""

    def ongoing(self) -> set[str]:
        """List the partitions that are being reassigned."""

    def proposal(self, topic: str, brokers: str) -> str:
        """Generate a reassignment of a topic, as JSON."""

    def places(self, topic: str, broker: int) -> dict[bool, str]:
        """Describe the directory of a topic's replica, by whether it is the future one."""


class Ours:
    """`jbodlab reassign` and `dirs describe`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def execute(self, file: str, *, throttle: int = 0, dirs_throttle: int = 0) -> None:
        rates = ["--throttle", throttle] if throttle else []
        rates += ["--dirs-throttle", dirs_throttle] if dirs_throttle else []
        called(self._cluster, "reassign", "execute", file, "--yes", *rates)

    def cancel(self, file: str) -> None:
        called(self._cluster, "reassign", "cancel", file, "--yes")

    def states(self, file: str) -> dict[str, str]:
        done = call(self._cluster, "reassign", "verify", file, "--output", "json")
        found = {
            f"{one['topic']}-{one['partition']}"
            + ("" if one["broker"] is None else f"-{one['broker']}"): str(one["state"])
            for one in json.loads(done.out)
        }
        assert done.code == (0 if set(found.values()) == {"done"} else 1)
        return found

    def ongoing(self) -> set[str]:
        found = value(self._cluster, "reassign", "list")
        return {f"{one['topic']}-{one['partition']}" for one in found}

    def proposal(self, topic: str, brokers: str) -> str:
        return called(self._cluster, "reassign", "generate", topic, "--brokers", brokers)

    def places(self, topic: str, broker: int) -> dict[bool, str]:
        words = ("dirs", "describe", "--brokers", broker, "--topics", topic)
        return _places(json.dumps(value(self._cluster, *words)))


class Kafkas:
    """`kafka-reassign-partitions` and `kafka-log-dirs`."""

    def __init__(self, cluster: Cluster, tools: KafkaTools) -> None:
        self._cluster = cluster
        self._tools = tools

    def execute(self, file: str, *, throttle: int = 0, dirs_throttle: int = 0) -> None:
        rates = ["--throttle", str(throttle)] if throttle else []
        if dirs_throttle:
            rates += ["--replica-alter-log-dirs-throttle", str(dirs_throttle)]
        said = self._run(REASSIGN, "--execute", "--reassignment-json-file", file, *rates)
        assert "Successfully started " in said

    def cancel(self, file: str) -> None:
        self._run(REASSIGN, "--cancel", "--reassignment-json-file", file)

    def states(self, file: str) -> dict[str, str]:
        said = self._run(REASSIGN, "--verify", "--reassignment-json-file", file)
        return {
            found[1].replace(" on broker ", "-"): state
            for pattern, state in _STATES
            for found in re.finditer(pattern, said)
        }

    def ongoing(self) -> set[str]:
        return set(re.findall(r"^(\S+-\d+): replicas: ", self._run(REASSIGN, "--list"), re.M))

    def proposal(self, topic: str, brokers: str) -> str:
        topics = self._cluster.root / "topics.json"
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
        options = ("--topics-to-move-json-file", str(topics), "--broker-list", brokers)
        return self._run(REASSIGN, "--generate", *options).splitlines()[-1]

    def places(self, topic: str, broker: int) -> dict[bool, str]:
        options = ("--describe", "--broker-list", str(broker), "--topic-list", topic)
        return _places(self._run(LOG_DIRS, *options).splitlines()[-1])

    def _run(self, tool: str, *options: str) -> str:
        options = ("--bootstrap-server", self._cluster.bootstrap, *options)
        code, out, err = self._tools.run(tool, *options)
        assert code == 0, out + err
        return out


def _places(text: str) -> dict[bool, str]:
    return {
        replica["isFuture"]: log_dir["logDir"]
        for each in json.loads(text)["brokers"]
        for log_dir in each["logDirs"]
        for replica in log_dir["partitions"]
    }
