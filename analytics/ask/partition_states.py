"""Partitions as the tables of a moment have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from analytics.engines.duck import DuckEngine
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAt:
    """One partition at the moment that was asked about."""

    topic: str
    topic_id: str
    partition: int
    state: PartitionRegistration

    @property
    def name(self) -> str:
        """Topic and index, as Kafka's tools write them."""
        return f"{self.topic}-{self.partition}"


def partition_states(tables: DuckEngine, condition: str = "true") -> list[PartitionAt]:
    """Return the partitions that exist at a moment, by topic and index."""
    tables.make("partitions")
    rows = tables.ask(f"FROM partitions WHERE {condition} ORDER BY topic, partition")
    return [
        PartitionAt(
            topic=row["topic"],
            topic_id=row["topic_id"],
            partition=row["partition"],
            state=registration(row),
        )
        for batch in rows.to_arrow_reader()
        for row in batch.to_pylist()
    ]


def registration(row: Mapping[str, Any]) -> PartitionRegistration:
    """Return the state that a row of a table of partitions tells."""
    return PartitionRegistration(
        leader=BrokerId(row["leader"]),
        leader_epoch=LeaderEpoch(row["leader_epoch"]),
        partition_epoch=PartitionEpoch(row["partition_epoch"]),
        leader_recovery_state=row["leader_recovery_state"],
        replicas=_brokers(row["replicas"]),
        isr=_brokers(row["isr"]),
        removing_replicas=_brokers(row["removing_replicas"]),
        adding_replicas=_brokers(row["adding_replicas"]),
        directories=tuple(map(directory, row["directories"])),
        elr=_brokers(row["eligible_leader_replicas"]),
        last_known_elr=_brokers(row["last_known_elr"]),
    )


@lru_cache(maxsize=1 << 12)
def directory(text: str) -> DirectoryId:
    """Return the id of a directory that a table names."""
    return DirectoryId(kafka_uuid.parse(text))


def _brokers(numbers: list[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))
