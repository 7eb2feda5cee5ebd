"""Output and answers of servers, as events: metadata records and polled answers.

Each class here is fed with what was read and keeps only what it needs to tell news from old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.metadata.log.batches import MetadataBatch
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)
from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId, TopicPartition
from lab.cluster.questions import Offsets, OpenTransaction
from lab.watch.events import Event


class Eligible(NamedTuple):
    """Brokers that may lead a partition beside its ISR, or led it last; KIP-966."""

    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()

    def __str__(self) -> str:
        words = [f"eligible leader replicas {', '.join(map(str, self.elr)) or 'none'}"]
        if self.last_known_elr:
            words.append(f"last known {', '.join(map(str, self.last_known_elr))}")
        return ", ".join(words)


class LeadingController(NamedTuple):
    """The controller that leads the metadata log, and its epoch."""

    controller: int
    epoch: int

    def __str__(self) -> str:
        return f"controller-{self.controller} leads the metadata log in epoch {self.epoch}"


_OfPartition = PartitionRecord | PartitionChangeRecord
_ANSWERS = {
    "answers": "answers again",
    "silent": "does not answer",
    "untold": "serves, and does not tell of its directories",
}


class MetadataNews:
    """Reads metadata records for what they change.

    Args:
        places: The directories by their ids, as far as they are known.
    """

    def __init__(self, places: Mapping[DirectoryId, Place]) -> None:
        self._places = places
        self.eligible: dict[TopicPartition, Eligible] = {}
        """Of partitions that have, or had, eligible leader replicas."""
        self._topics: dict[TopicId, str] = {}
        self._partitions: dict[TopicPartition, tuple[int, int, int]] = {}
        """Leader, number of replicas, size of the ISR."""
        self._log_dirs: dict[BrokerId, frozenset[DirectoryId]] = {}
        self._fenced: dict[BrokerId, bool] = {}
        self.leader: LeadingController | None = None
        """The controller that leads the log; None before the first record of that."""

    def read(self, batch: MetadataBatch, t_ns: int, err_ns: int) -> Iterator[Event]:
        """Yield what a batch changes, all at its one time."""
        for offset, item in batch.records:
            if isinstance(item, LeaderChangeMessage):
                former, self.leader = self.leader, LeadingController(item.leader_id, batch.epoch)
                if former is not None:
                    text = f"{self.leader} (offset {offset})"
                    event = _event("metadata", "controller", text, **self.leader._asdict())
                    yield _at(event, t_ns, err_ns)
        for offset, (record, _) in batch.data_records:
            for event in self._read(record):
                text = f"{event.text} (offset {offset})"
                yield replace(event, t_ns=t_ns, err_ns=err_ns, text=text)

    def _read(self, record: object) -> Iterator[Event]:
        match record:
            case TopicRecord():
                self._topics[record.topic_id] = record.name
            case PartitionRecord() | PartitionChangeRecord() if record.topic_id in self._topics:
                name = self._topics[record.topic_id]
                partition = TopicPartition(name, record.partition_id)
                yield from self._changed(partition, record)
                yield from self._changed_elr(partition, record)
            case ClearElrRecord():
                for partition, before in self.eligible.items():
                    if record.topic_name in ("", partition.topic) and before != Eligible():
                        self.eligible[partition] = Eligible()
                        yield elr_event("metadata", partition, Eligible())
            case RegisterBrokerRecord():
                yield from self._registered(record.broker_id, record.log_dirs)
                yield from self._fence(record.broker_id, is_fenced=record.fenced)
            case BrokerRegistrationChangeRecord():
                if record.log_dirs:
                    yield from self._registered(record.broker_id, record.log_dirs)
                if record.fenced:
                    yield from self._fence(record.broker_id, is_fenced=record.fenced > 0)
            case FenceBrokerRecord():
                yield from self._fence(record.id, is_fenced=True)
            case UnfenceBrokerRecord():
                yield from self._fence(record.id, is_fenced=False)

    def _changed(self, partition: TopicPartition, record: _OfPartition) -> Iterator[Event]:
        before = self._partitions.get(partition, (-1, 0, 0))
        # A change has -2 for a leader that stays, and None for what else does.
        now = (
            before[0] if record.leader < -1 else record.leader,
            before[1] if record.replicas is None else len(record.replicas),
            before[2] if record.isr is None else len(record.isr),
        )
        self._partitions[partition] = now
        if now[0] != before[0]:
            yield leader_event("metadata", partition, now[0])
        if now[1:] != before[1:]:
            yield isr_event("metadata", partition, now[2], now[1])

    def _changed_elr(self, partition: TopicPartition, record: _OfPartition) -> Iterator[Event]:
        elr, last_known = record.eligible_leader_replicas, record.last_known_elr
        before = self.eligible.get(partition, Eligible())
        now = Eligible(
            before.elr if elr is None else elr,
            before.last_known_elr if last_known is None else last_known,
        )
        if now != before:
            self.eligible[partition] = now
            yield elr_event("metadata", partition, now)

    def _registered(self, broker: BrokerId, log_dirs: tuple[DirectoryId, ...]) -> Iterator[Event]:
        before, now = self._log_dirs.get(broker, frozenset()), frozenset(log_dirs)
        self._log_dirs[broker] = now
        for kind, changed in (("offline", before - now), ("online", now - before)):
            for one in sorted(changed):
                place = self._places.get(one)
                text = f"broker {broker} is registered {'without' if kind == 'offline' else 'with'}"
                event = _event("metadata", kind, f"{text} {place or kafka_uuid.to_text(one)}")
                yield replace(event, place=place)

    def _fence(self, broker: BrokerId, *, is_fenced: bool) -> Iterator[Event]:
        if self._fenced.get(broker) == is_fenced:
            return
        self._fenced[broker] = is_fenced
        kind = "fenced" if is_fenced else "unfenced"
        event = _event("metadata", kind, f"broker {broker} is {kind}")
        yield replace(event, place=Place(int(broker)))


class PolledNews:
    """Compares answers of brokers with those before."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionPicture] = {}
        """By name, as pictures are asked for far more often than brokers are."""
        self.online: set[Place] = set()
        self.offline: set[Place] = set()
        self._answers: dict[int, str] = {}
        """By broker the last of `_ANSWERS`."""

    def partitions_are(
        self, found: Mapping[TopicPartition, PartitionPicture], t_ns: int, err_ns: int
    ) -> Iterator[Event]:
        """Yield changes of leaders and ISRs."""
        for partition, now in found.items():
            before = self.partitions.get(partition)
            if before is None or before.leader != now.leader:
                yield _at(leader_event("metric", partition, now.leader), t_ns, err_ns)
            if before is None or len(before.isr) != len(now.isr):
                event = isr_event("metric", partition, len(now.isr), len(now.replicas))
                yield _at(event, t_ns, err_ns)
        self.partitions = dict(sorted(found.items()))

    def log_dirs_are(
        self,
        broker: int,
        paths: Mapping[str, int],
        found: list[DescribedLogDir] | None,
        t_ns: int,
        err_ns: int,
        *,
        serves: bool = False,
    ) -> Iterator[Event]:
        """Yield directories that a broker says went off or on line; and brokers that are silent.

        Args:
            broker: The broker that answered.
            paths: Numbers of its directories by their paths.
            found: The answer; None if there was none.
            t_ns: When it came.
            err_ns: Time between two questions.
            serves: Whether one that owes this answer gives others.
        """
        event = partial(Event, t_ns=t_ns, source="metric", err_ns=err_ns)
        kind = "answers" if found is not None else "untold" if serves else "silent"
        if self._answers.get(broker, "answers") != kind:
            text = f"broker {broker} {_ANSWERS[kind]}"
            yield event(kind=kind, text=text, place=Place(broker))
        self._answers[broker] = kind
        if found is None:
            return
        named = {paths[view.path]: view for view in found if view.path in paths}
        for number in paths.values():
            place, view = Place(broker, number), named.get(number)
            is_offline = view is None or bool(view.error_code)
            if is_offline != (place in self.offline):
                kind = "offline" if is_offline else "online"
                yield event(kind=kind, text=f"clients see {place} {kind}", place=place)
            there, gone = (self.offline, self.online)[:: 1 if is_offline else -1]
            there.add(place)
            gone.discard(place)


class TransactionNews:
    """Compares what brokers tell of transactions with what they told before.

    A last stable offset stands still from the second question on that finds it the same, and before
    the high watermark.
    """

    def __init__(self) -> None:
        self._open: dict[int, dict[str, OpenTransaction]] = {}
        """Transactions that each broker coordinates, by transactional id."""
        self._offsets: dict[TopicPartition, Offsets] = {}
        self.stuck: dict[TopicPartition, Offsets] = {}

    @property
    def open(self) -> list[OpenTransaction]:
        """All that are open for long, by their ids."""
        found = {key: one for some in self._open.values() for key, one in some.items()}
        return [found[key] for key in sorted(found)]

    def answered(
        self,
        broker: int,
        transactions: Iterable[OpenTransaction],
        offsets: Mapping[TopicPartition, Offsets],
        t_ns: int,
        err_ns: int,
    ) -> Iterator[Event]:
        """Yield transactions that are open for long or have ended, and offsets that stand or move.

        Args:
            broker: The broker that answered.
            transactions: Those that it coordinates and that are open for long.
            offsets: Of the partitions that it leads.
            t_ns: When it answered.
            err_ns: Time between two questions.
        """
        now = {one.transactional_id: one for one in transactions}
        before = self._open.get(broker, {})
        for key, one in now.items():
            if key not in before or before[key].state != one.state:
                yield _transaction_event(one, t_ns, err_ns)
        self._open[broker] = now
        for key, one in before.items():
            # Its coordinator may have moved.
            if not any(key in some for some in self._open.values()):
                yield _transaction_event(replace(one, state="ended"), t_ns, err_ns)
        for partition, found in offsets.items():
            last = self._offsets.get(partition)
            stands = (
                last is not None
                and last.last_stable == found.last_stable < last.high_watermark
                and found.last_stable < found.high_watermark
            )
            if stands != (partition in self.stuck):
                yield _stable_event(partition, found, t_ns, err_ns, stands=stands)
            if stands:
                self.stuck[partition] = found
            else:
                self.stuck.pop(partition, None)
            self._offsets[partition] = found


def _transaction_event(one: OpenTransaction, t_ns: int, err_ns: int) -> Event:
    words = "has ended" if one.state == "ended" else f"is open for long: {one.state}"
    text = f"the transaction of {one.transactional_id} {words}"
    data = {"transactional_id": one.transactional_id, "state": one.state}
    return _at(_event("metric", "transaction", text, None, **data), t_ns, err_ns)


def _stable_event(
    partition: TopicPartition, found: Offsets, t_ns: int, err_ns: int, *, stands: bool
) -> Event:
    behind = found.high_watermark - found.last_stable
    words = f"stands at {found.last_stable}, {behind} before the high watermark"
    text = f"the last stable offset of {partition} {words if stands else 'moves again'}"
    data = {"last_stable": found.last_stable, "behind": behind, "stands": stands}
    return _at(_event("metric", "last-stable", text, partition, **data), t_ns, err_ns)


def leader_event(source: str, partition: TopicPartition, leader: int) -> Event:
    """Return the news of a leader, -1 for none."""
    said = f"{partition} is led by broker {leader}" if leader >= 0 else f"{partition} has no leader"
    return _event(source, "leader", said, partition, leader=int(leader))


def isr_event(source: str, partition: TopicPartition, isr: int, replicas: int) -> Event:
    """Return the news of an ISR's size."""
    text = f"{isr} of {replicas} replicas of {partition} are in sync"
    return _event(source, "isr", text, partition, isr=isr, replicas=replicas)


def elr_event(source: str, partition: TopicPartition, eligible: Eligible) -> Event:
    """Return the news of who may lead a partition beside its ISR."""
    data = {"elr": list(eligible.elr), "last_known_elr": list(eligible.last_known_elr)}
    return _event(source, "elr", f"{partition}: {eligible}", partition, **data)


def _event(
    source: str, kind: str, text: str, partition: TopicPartition | None = None, **data: Any
) -> Event:
    return Event(t_ns=0, source=source, kind=kind, text=text, partition=partition, data=data)


def _at(event: Event, t_ns: int, err_ns: int) -> Event:
    return replace(event, t_ns=t_ns, err_ns=err_ns)
