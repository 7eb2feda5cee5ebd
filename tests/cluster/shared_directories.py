"""One broker and one controller, ours or Kafka's in turn, on the same directories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster.harness import made
from tests.cluster.lab_cluster import Cluster
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import DUMP_LOG, GROUPS, KafkaTools
from tests.storage_tool.dumping import dump

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "log.cleaner.backoff.ms": "100",
    "log.segment.delete.delay.ms": "1000",
}
DESCRIPTIONS = ("--offsets", "--members --verbose", "--state --verbose")


class Directories:
    """One broker and one controller, which are ours or Kafka's, on the same directories."""

    def __init__(self, root: Path, tools: KafkaTools, *, of_kafka: bool = False) -> None:
        """Make them.

        Args:
            root: The folder of everything.
            tools: Kafka's tools, and its jars.
            of_kafka: Whether Kafka's own tool formats the directories.
        """
        theirs = KafkaServers(tools, SHORT_LIVED)
        servers = {"servers": theirs} if of_kafka else {}
        self._formatted = made(root, brokers=1, dirs=2, settings=SETTINGS, **servers)
        state = self._formatted.state
        if of_kafka:
            self._ours, self._theirs = Cluster(state, ports=None), self._formatted
        else:
            self._ours, self._theirs = self._formatted, Cluster(state, servers=theirs, ports=None)
        self._tools = tools

    def close(self) -> None:
        self._formatted.close()

    def levels(self) -> dict[str, int]:
        """The finalized levels of all features, as the controller's disk has them."""
        return dict(self._formatted.image().features.levels)

    @contextmanager
    def served(self, *, by_kafka: bool) -> Iterator[Cluster]:
        """Serve them; in the end all processes have stopped in order."""
        cluster = self._theirs if by_kafka else self._ours
        try:
            for node in cluster.nodes.values():
                node.start()
            cluster.wait_served()
            yield cluster
        finally:
            for node in reversed([*cluster.nodes.values()]):
                node.stop()

    def dumped(self) -> tuple[list[str], list[str]]:
        """The text that both dump tools print of all segments of the groups: Kafka's, and ours."""
        found = sorted(
            self._formatted.root.glob(f"broker-*/disk-*/data/{GROUP_METADATA_TOPIC}-0/*.log")
        )
        theirs = ("--offsets-decoder", "--files", ",".join(map(str, found)))
        return self._tools.run(DUMP_LOG, *theirs).lines, dump("--offsets-decoder", *found).lines

    def described(self, cluster: Cluster) -> dict[str, list[str]]:
        """The text that Kafka's tool prints of all groups."""
        printed = {}
        for what in DESCRIPTIONS:
            arguments = f"--describe --all-groups {what}".split()
            done = self._tools.run(GROUPS, "--bootstrap-server", cluster.bootstrap, *arguments)
            assert done.code == 0, done
            printed[what] = sorted(" ".join(line.split()) for line in done.lines if line.strip())
        return printed
