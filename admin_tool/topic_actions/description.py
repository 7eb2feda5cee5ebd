r"""The lines of `--describe`, as Kafka's tool prints them, and which partitions a report shows.

    Topic: foo\tTopicId: ...\tPartitionCount: 2\tReplicationFactor: 3\tConfigs: a=b,c=d
    \tTopic: foo\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tElr: \tLastKnownElr: \tOffline: 2

`Adding Replicas` and `Removing Replicas` stand behind `Isr` while the partition is reassigned. What
Kafka does not print, the offline replicas, is the last column: scripts that count columns from the
left, or look for names, find Kafka's where they expect them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from admin_tool.requests.configs import ConfigEntry
from admin_tool.requests.reassignments import Reassignment
from admin_tool.requests.topics import PartitionDescription, TopicDescription
from jbodlab import kafka_uuid

MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What is to be shown; with several filters a partition is shown if one of them lets it."""

    under_replicated: bool = False
    unavailable: bool = False
    under_min_isr: bool = False
    at_min_isr: bool = False
    overrides_only: bool = False

    @property
    def filters(self) -> bool:
        """Whether only some partitions are shown, and no topics."""
        return self.under_replicated or self.unavailable or self.under_min_isr or self.at_min_isr

    @property
    def needs_min_isr(self) -> bool:
        """Whether the topics' settings decide what is shown."""
        return self.under_min_isr or self.at_min_isr or self.overrides_only

    def shows(
        self,
        partition: PartitionDescription,
        reassignment: Reassignment | None,
        live_brokers: frozenset[int],
        min_isr: int | None,
    ) -> bool:
        """Return whether a partition is shown."""
        if self.overrides_only:
            return False
        if not self.filters:
            return True
        in_sync = len(partition.isr)
        missing = replication_factor(partition, reassignment) - in_sync
        return (
            (self.under_replicated and missing > 0)
            or (self.unavailable and partition.leader not in live_brokers)
            or (
                self.under_min_isr
                and (partition.leader is None or (min_isr is not None and in_sync < min_isr))
            )
            or (self.at_min_isr and in_sync == min_isr)
        )


def topic_line(
    topic: TopicDescription, reassignment: Reassignment | None, configs: Sequence[ConfigEntry]
) -> str:
    """Return the line of a topic.

    Args:
        topic: It has partitions.
        reassignment: That of its first partition, None where none is under way.
        configs: The settings that somebody made.
    """
    settings = ",".join(f"{one.name}={_value(one)}" for one in configs)
    return "\t".join(
        (
            f"Topic: {topic.name}",
            f"TopicId: {kafka_uuid.to_text(topic.topic_id)}",
            f"PartitionCount: {len(topic.partitions)}",
            f"ReplicationFactor: {replication_factor(topic.partitions[0], reassignment)}",
            f"Configs: {settings}",
        )
    )


def partition_line(
    topic: str, partition: PartitionDescription, reassignment: Reassignment | None
) -> str:
    """Return the line of a partition."""
    fields = [
        "",
        f"Topic: {topic}",
        f"Partition: {partition.index}",
        f"Leader: {'none' if partition.leader is None else partition.leader}",
        f"Replicas: {_listed(partition.replicas)}",
        f"Isr: {_listed(partition.isr)}",
    ]
    if reassignment is not None:
        fields.append(f"Adding Replicas: {_listed(reassignment.adding)}")
        fields.append(f"Removing Replicas: {_listed(reassignment.removing)}")
    fields.append(f"Elr: {_listed(partition.elr)}")
    fields.append(f"LastKnownElr: {_listed(partition.last_known_elr)}")
    fields.append(f"Offline: {_listed(partition.offline)}")
    return "\t".join(fields)


def replication_factor(partition: PartitionDescription, reassignment: Reassignment | None) -> int:
    """Return how many replicas a partition has, or will have had before those being added."""
    replicas = len(partition.replicas)
    if reassignment is None:
        return replicas
    changing = {*reassignment.adding, *reassignment.removing}
    if changing.isdisjoint(partition.replicas):
        # It ended between the two answers.
        return replicas
    return replicas - len(reassignment.adding)


def overrides(configs: Iterable[ConfigEntry]) -> list[ConfigEntry]:
    """Return the settings that somebody made: for the topic, for a broker or for all."""
    return [one for one in configs if not one.is_default]


def min_isr(configs: Iterable[ConfigEntry]) -> int | None:
    """Return `min.insync.replicas`; None where it is not among the settings."""
    for one in configs:
        if one.name == MIN_ISR and one.value is not None:
            return int(one.value)
    return None


def _value(entry: ConfigEntry) -> str:
    return "null" if entry.value is None else entry.value


def _listed(brokers: Sequence[int] | None) -> str:
    return "N/A" if brokers is None else ",".join(map(str, brokers))
