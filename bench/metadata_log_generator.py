"""A large metadata log as a busy cluster would have written it, made in seconds.

    generate(Path("/tmp/log"), records=10_000_000)

Twelve brokers with four directories each serve some thousand topics of ten partitions. The log is a
row of incidents: a broker is restarted, a directory fails, followers fall behind, partitions are
moved between directories and brokers, topics come and go, and an idle controller writes no-ops in
between. Whatever an incident changes it leaves as it found it, so that every change fits the state
before it and a replay finds no problem.

Records of one shape are rows of one array of bytes; only batch headers are made one by one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from bench.log_writer import Array, LogWriter
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord, NoOpRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId

BROKERS = 12
DIRECTORIES = 4
PARTITIONS_PER_TOPIC = 10
REPLICAS = 3
METADATA_VERSION = 20
SEGMENT_BYTES = 256 << 20


@dataclass
class Cluster:
    """The state that incidents come from and lead back to: every replica in sync."""

    topics: int
    random: np.random.Generator
    topic_ids: Array = field(init=False)
    replicas: Array = field(init=False)
    directories: Array = field(init=False)
    """Index of the directory of each replica on its broker."""
    directory_ids: Array = field(init=False)

    def __post_init__(self) -> None:
        partitions = self.topics * PARTITIONS_PER_TOPIC
        self.topic_ids = self._ids(self.topics)
        self.directory_ids = self._ids(BROKERS * DIRECTORIES).reshape(BROKERS, DIRECTORIES, 16)
        shuffled = self.random.random((partitions, BROKERS)).argsort(axis=1)
        self.replicas = shuffled[:, :REPLICAS].astype(np.int32)
        self.directories = self.random.integers(0, DIRECTORIES, size=(partitions, REPLICAS))

    def _ids(self, count: int) -> Array:
        raw = self.random.integers(0, 256, size=(count, 16), dtype=np.uint8)
        raw[:, 0] &= 0x7F
        raw[:, 6] = raw[:, 6] & 0x0F | 0x40
        raw[:, 8] = raw[:, 8] & 0x3F | 0x80
        return raw

    def change(self, partitions: Array, **fields: Array | None) -> Array:
        """Return PartitionChange values; each field is an array of a row per partition."""
        example: dict[str, Any] = {}
        slots: dict[str, Array] = {}
        for name, values in fields.items():
            if values is None:
                continue
            if name == "directories":
                example[name] = (DirectoryId(UUID(int=0)),) * values.shape[1]
                slots[name] = self.directory_ids[fields["_brokers"], values].reshape(
                    len(partitions), -1
                )
            elif name == "leader":
                example[name] = BrokerId(7)
                slots[name] = _int32(values)
            elif name != "_brokers":
                example[name] = tuple(map(BrokerId, range(values.shape[1])))
                slots[name] = _int32(values)
        template = PartitionChangeRecord(partition_id=0, topic_id=TopicId(UUID(int=0)), **example)
        raw = np.frombuffer(frame.encode(template, 1), dtype=np.uint8)
        values = np.tile(raw, (len(partitions), 1))
        values[:, 3:7] = _int32(partitions % PARTITIONS_PER_TOPIC)
        values[:, 7:23] = self.topic_ids[partitions // PARTITIONS_PER_TOPIC]
        position = 24
        for name in ("isr", "leader", "replicas", "removing_replicas", "adding_replicas"):
            position = _fill(values, position, slots.get(name), with_count=name != "leader")
            if name in example and name not in slots:
                raise AssertionError(name)
        position = _fill(values, position, slots.get("directories"), with_count=True)
        assert position == values.shape[1]
        return values


def _fill(values: Array, position: int, slot: Array | None, *, with_count: bool) -> int:
    """Put a tagged field's bytes behind its tag, size and count; return the next position."""
    if slot is None:
        return position
    size = int(slot.shape[1])
    position += 2 + (size + with_count > 127) + with_count
    values[:, position : position + size] = slot
    return position + size


def generate(
    directory: Path,
    records: int,
    *,
    topics: int = 3000,
    segment_bytes: int = SEGMENT_BYTES,
    seed: int = 1,
) -> LogWriter:
    """Write a log of at least so many records, and hardly more.

    Args:
        directory: Gets a folder `__cluster_metadata-0`.
        records: Where to stop.
        topics: Topics of ten partitions that stay; fewer if the log is too small for them.
        segment_bytes: Size of a segment.
        seed: Of all chance.
    """
    random = np.random.default_rng(seed)
    writer = LogWriter(directory / METADATA_DIR_NAME, segment_bytes, random)
    cluster = Cluster(max(1, min(topics, records // (4 * PARTITIONS_PER_TOPIC))), random)
    incidents = Incidents(cluster, writer)
    incidents.begin()
    while writer.offset < records:
        incidents.one(records)
    writer.close()
    return writer


class Incidents:
    """Incidents of the cluster, one after the other."""

    def __init__(self, cluster: Cluster, writer: LogWriter) -> None:
        self.cluster = cluster
        self.writer = writer
        self.random = cluster.random
        self.broker_epochs = [0] * BROKERS
        self.rounds = 0

    def begin(self) -> None:
        """Write what a new cluster has: brokers and topics."""
        self.writer.new_leader()
        self._records(FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION))
        for broker in range(BROKERS):
            self._register(broker)
        partitions = np.arange(len(self.cluster.replicas))
        every = 500 * PARTITIONS_PER_TOPIC
        for start in range(0, len(partitions), every):
            chosen = partitions[start : start + every]
            numbers = np.unique(chosen // PARTITIONS_PER_TOPIC)
            names = [
                _value(
                    TopicRecord(
                        name=f"topic-{number:06d}",
                        topic_id=TopicId(UUID(bytes=self.cluster.topic_ids[number].tobytes())),
                    ),
                    0,
                )
                for number in numbers.tolist()
            ]
            self.writer.append([np.stack(names)], None, 500)
            self.writer.append([self._partition_values(chosen)], None, 1000)

    def one(self, records: int) -> None:
        """Let one thing happen."""
        self.rounds += 1
        if self.rounds % 40 == 0:
            self.writer.new_leader()
        weights = (0.22, 0.22, 0.22, 0.12, 0.12, 0.10)
        kinds = (
            self._restart,
            self._directory_failure,
            self._lag,
            self._move_directories,
            self._reassign,
            self._topic_churn,
        )
        kinds[int(self.random.choice(len(kinds), p=weights))]()
        idle = min(int(self.random.integers(50, 400)), max(1, records - self.writer.offset))
        self.writer.append([np.tile(_value(NoOpRecord(), 0), (idle, 1))], None, 1)

    def _restart(self) -> None:
        """A broker is fenced, everything leaves it, it comes back and leads again."""
        broker = int(self.random.integers(BROKERS))
        change = BrokerRegistrationChangeRecord(
            broker_id=BrokerId(broker),
            broker_epoch=BrokerEpoch(self.broker_epochs[broker]),
            fenced=1,
        )
        self._records(change, version=2)
        self._out_and_in(broker, np.nonzero((self.cluster.replicas == broker).any(axis=1))[0])

    def _directory_failure(self) -> None:
        """A broker reports a directory; its replicas leave the ISR until the broker restarts."""
        broker = int(self.random.integers(BROKERS))
        lost = int(self.random.integers(DIRECTORIES))
        remaining = [index for index in range(DIRECTORIES) if index != lost]
        change = BrokerRegistrationChangeRecord(
            broker_id=BrokerId(broker),
            broker_epoch=BrokerEpoch(self.broker_epochs[broker]),
            log_dirs=self._directory_ids(broker, remaining),
        )
        self._records(change, version=2)
        on_it = (self.cluster.replicas == broker) & (self.cluster.directories == lost)
        self._out_and_in(broker, np.nonzero(on_it.any(axis=1))[0])

    def _out_and_in(self, broker: int, partitions: Array) -> None:
        """The ISRs of some partitions lose a broker; it registers, and they get it back."""
        if not len(partitions):
            self._register(broker)
            return
        replicas = self.cluster.replicas[partitions]
        others = replicas[replicas != broker].reshape(len(partitions), REPLICAS - 1)
        led = replicas[:, 0] == broker
        follows = partitions[~led]
        moved = self.cluster.change(partitions[led], isr=others[led], leader=others[led][:, :1])
        shrunk = self.cluster.change(follows, isr=others[~led])
        self.writer.append([moved, shrunk], self.random.permutation(len(partitions)), 1000)
        self._register(broker)
        expanded = self.cluster.change(partitions, isr=np.roll(replicas, 1, axis=1))
        self.writer.append([expanded], self.random.permutation(len(partitions)), 60)
        preferred = self.cluster.change(partitions[led], leader=replicas[led][:, :1])
        if len(preferred):
            self.writer.append([preferred], None, 300)

    def _lag(self) -> None:
        """Followers of some partitions fall behind and catch up, each in a batch of its own."""
        count = min(2000, len(self.cluster.replicas))
        partitions = self.random.choice(len(self.cluster.replicas), size=count, replace=False)
        replicas = self.cluster.replicas[partitions]
        self.writer.append([self.cluster.change(partitions, isr=replicas[:, :2])], None, 4)
        self.writer.append([self.cluster.change(partitions, isr=replicas)], None, 4)

    def _move_directories(self) -> None:
        """Brokers say that replicas lie in other directories now."""
        count = min(5000, len(self.cluster.replicas))
        partitions = self.random.choice(len(self.cluster.replicas), size=count, replace=False)
        moved = self.cluster.directories[partitions]
        moved[:, 1] = (moved[:, 1] + 1) % DIRECTORIES
        self.cluster.directories[partitions] = moved
        values = self.cluster.change(
            partitions, directories=moved, _brokers=self.cluster.replicas[partitions]
        )
        self.writer.append([values], None, 200)

    def _reassign(self) -> None:
        """The last replica of some partitions moves to another broker."""
        count = min(1500, len(self.cluster.replicas))
        partitions = self.random.choice(len(self.cluster.replicas), size=count, replace=False)
        old = self.cluster.replicas[partitions]
        target = self._other_broker(old)[:, None]
        both = np.concatenate([old, target], axis=1)
        zeros = np.zeros_like(target)
        places = np.concatenate([self.cluster.directories[partitions], zeros], axis=1)
        begun = self.cluster.change(
            partitions,
            replicas=both,
            removing_replicas=old[:, 2:],
            adding_replicas=target,
            directories=places,
            _brokers=both,
        )
        self.writer.append([begun], None, 100)
        self.writer.append([self.cluster.change(partitions, isr=both)], None, 20)
        new, new_places = both[:, [0, 1, 3]], places[:, [0, 1, 3]]
        nothing = np.zeros((count, 0), dtype=np.int32)
        done = self.cluster.change(
            partitions,
            isr=new,
            replicas=new,
            removing_replicas=nothing,
            adding_replicas=nothing,
            directories=new_places,
            _brokers=new,
        )
        self.writer.append([done], None, 20)
        self.cluster.replicas[partitions] = new
        self.cluster.directories[partitions] = new_places

    def _topic_churn(self) -> None:
        """Topics are created with a setting, and deleted."""
        for _ in range(20):
            topic_id = TopicId(UUID(bytes=self.random.bytes(16), version=4))
            name = f"job-{self.writer.offset}"
            partitions = []
            for index in range(5):
                replicas = self.random.permutation(BROKERS)[:REPLICAS].tolist()
                brokers = tuple(map(BrokerId, replicas))
                partitions.append(
                    PartitionRecord(
                        partition_id=index,
                        topic_id=topic_id,
                        replicas=brokers,
                        isr=brokers,
                        leader=brokers[0],
                        leader_epoch=0,  # type: ignore[arg-type]
                        partition_epoch=0,  # type: ignore[arg-type]
                        directories=tuple(self._directory_ids(b, [0])[0] for b in replicas),
                    )
                )
            config = ConfigRecord(
                resource_type=2, resource_name=name, name="min.insync.replicas", value="2"
            )
            self._records(TopicRecord(name=name, topic_id=topic_id), config, version=0)
            self._records(*partitions, version=1)
            self._records(RemoveTopicRecord(topic_id=topic_id))

    def _other_broker(self, replicas: Array) -> Array:
        target = (replicas[:, 2] + 1) % BROKERS
        for _ in range(REPLICAS):
            taken = (replicas == target[:, None]).any(axis=1)
            target = np.where(taken, (target + 1) % BROKERS, target)
        return target.astype(np.int32)

    def _register(self, broker: int) -> None:
        self.broker_epochs[broker] = self.writer.offset
        record = RegisterBrokerRecord(
            broker_id=BrokerId(broker),
            incarnation_id=UUID(bytes=self.random.bytes(16), version=4),
            broker_epoch=BrokerEpoch(self.writer.offset),
            end_points=(BrokerEndpoint(name="PLAINTEXT", host=f"b{broker}", port=9092),),
            fenced=False,
            log_dirs=self._directory_ids(broker, range(DIRECTORIES)),
        )
        self._records(record, version=3)

    def _directory_ids(self, broker: int, indexes: Sequence[int]) -> tuple[DirectoryId, ...]:
        ids = self.cluster.directory_ids[broker]
        return tuple(DirectoryId(UUID(bytes=ids[index].tobytes())) for index in indexes)

    def _partition_values(self, partitions: Array) -> Array:
        brokers = tuple(map(BrokerId, range(REPLICAS)))
        template = PartitionRecord(
            partition_id=0,
            replicas=brokers,
            isr=brokers,
            leader=BrokerId(0),
            leader_epoch=0,  # type: ignore[arg-type]
            partition_epoch=0,  # type: ignore[arg-type]
            directories=(DirectoryId(UUID(int=0)),) * REPLICAS,
        )
        raw = np.frombuffer(frame.encode(template, 1), dtype=np.uint8)
        values = np.tile(raw, (len(partitions), 1))
        replicas = self.cluster.replicas[partitions]
        listed = _int32(replicas)
        values[:, 3:7] = _int32(partitions % PARTITIONS_PER_TOPIC)
        values[:, 7:23] = self.cluster.topic_ids[partitions // PARTITIONS_PER_TOPIC]
        values[:, 24:36] = listed
        values[:, 37:49] = listed
        values[:, 51:55] = _int32(replicas[:, :1])
        ids = self.cluster.directory_ids[replicas, self.cluster.directories[partitions]]
        values[:, 64:112] = ids.reshape(len(partitions), -1)
        return values

    def _records(self, *records: Record, version: int = 0) -> None:
        """Write a few records as one batch."""
        values = [_value(record, version)[None, :] for record in records]
        largest = len(values)
        if largest == 1:
            self.writer.append(values, None, 1)
        else:
            self.writer.append(values, None, 1 << 20)


def _value(record: Record, version: int) -> Array:
    return np.frombuffer(frame.encode(record, version), dtype=np.uint8)


def _int32(numbers: Array) -> Array:
    """Return the big-endian bytes of numbers, row by row."""
    rows = np.ascontiguousarray(numbers.astype(">i4"))
    return rows.view(np.uint8).reshape(len(rows), -1)


def main() -> int:
    """Write a log from the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.metadata_log_generator")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--segment-bytes", type=int, default=SEGMENT_BYTES)
    arguments = parser.parse_args()
    writer = generate(arguments.directory, arguments.records, segment_bytes=arguments.segment_bytes)
    print(f"{writer.offset} records in {writer.batches} batches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
