"""Transactions: what commits cost, and how long a dying directory stops them.

The producers are librdkafka's.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic

from bench.groups import COORDINATOR
from bench.measure import MAKE, failed, fresh, healed, median, percentile
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC
from lab.cluster import NotInTimeError
from tests.cluster.harness import Cluster, wait_for

TOPIC = "transactions"
PARTITIONS, PARTITIONS_OF_ONE = 6, 3
RECORDS = 10
"""Of a transaction, in `PARTITIONS_OF_ONE` partitions."""
CALL_S = 60.0
WARM_UP_S, RUN_S = 5.0, 10.0
PRODUCERS = (1, 20)
LONG_MS, LONG_RECORD_BYTES = 100, 1_000
"""Of the transactions of one producer that writes as fast as it can."""
FAULT_PRODUCERS, QUIET_S, GOES_ON_S, STOOD_S = 8, 3.0, 90.0, 1.0
DATA = "data"
SETTINGS = {"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Transactions that producers commit one after the other; ms of one call that commits."""

    producers: int
    per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which one side of the cluster's clients got nothing.

    Attributes:
        side: `producers`: no commit was answered; `readers`: no committed record was seen.
        who: Name of the producer, or the partition.
        step: Step on the cluster when it began, or last before that.
        after_s: How long after that it began; below 0 where it had begun already.
        length_s: How long it lasted; until the end of the run, where it did not end.
        ended_in: The step in which it ended; empty where it did not.
    """

    side: str
    who: str
    step: str
    after_s: float
    length_s: float
    ended_in: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGaps:
    """Cost of one step for producers and readers of committed records.

    Attributes:
        step: Step on the cluster.
        producers, readers: The longest gap of each side that began then; None where one that began
            before went on through the step.
        stood: All gaps of at least `STOOD_S`, of both sides.
        aborted: Transactions that had to be aborted.
        timed_out: Calls of producers that were not answered within `CALL_S`, and made again.
        fatal: Errors that ended producers.
    """

    step: str
    producers: Gap | None
    readers: Gap | None
    stood: Sequence[Gap]
    aborted: int
    timed_out: int
    fatal: Sequence[str]


def gaps_of(
    side: str, who: str, times: Sequence[float], steps: Sequence[tuple[str, float]], until: float
) -> Iterator[Gap]:
    """Yield the times between events, and between the last one and the end.

    Args:
        side: Whose events.
        who: As in `Gap`.
        times: Of the events, in their order.
        steps: Steps with their times, in that order.
        until: End of the run.
    """
    since = steps[0][1]
    known = [since, *(at for at in times if since < at < until)]
    for begin, end in pairwise([*known, until]):
        # One that began just before something was done lasts because of that.
        step, at = next(
            (one for one in steps if begin < one[1] <= min(end, begin + STOOD_S)),
            next(one for one in steps[::-1] if one[1] <= begin),
        )
        is_open = end == until and end - begin >= STOOD_S
        ended_in = "" if is_open else next(name for name, at in steps[::-1] if at <= end)
        yield Gap(side, who, step, begin - at, end - begin, ended_in)


class _Transactor:
    """A producer that writes transactions one after the other, on a thread."""

    def __init__(self, bootstrap: str, number: int) -> None:
        self.name = _name(number)
        self._number = number
        self._producer = producer_of(bootstrap, self.name)
        self.committed: list[float] = []
        self.took: list[float] = []
        self.aborted: list[float] = []
        self.timed_out: list[float] = []
        self.fatal = ""
        self.ended_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transacts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(2 * CALL_S)

    def _run(self) -> None:
        try:
            for count in itertools.count():
                if self._stop.is_set():
                    return
                self._producer.begin_transaction()
                for index in range(RECORDS):
                    partition = (self._number + count + index % PARTITIONS_OF_ONE) % PARTITIONS
                    self._producer.produce(TOPIC, b"x" * 100, partition=partition)
                begun = time.monotonic()
                if self._commit():
                    self.committed.append(time.monotonic())
                    self.took.append(self.committed[-1] - begun)
        except KafkaException as error:
            self.ended_at, self.fatal = time.monotonic(), str(error)

    def _commit(self) -> bool:
        while True:
            try:
                self._producer.commit_transaction(CALL_S)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._producer.abort_transaction(CALL_S)
                    self.aborted.append(time.monotonic())
                    return False
                if not error.args[0].retriable():
                    raise
                self.timed_out.append(time.monotonic())
            else:
                return True


def _name(number: int) -> str:
    return f"{TOPIC}-{number}"


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    """A transactional producer that can begin."""
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "transaction.timeout.ms": 60_000,
        "queue.buffering.max.kbytes": 100_000,
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(CALL_S)
    return producer


@contextmanager
def _running(cluster: Cluster, producers: int) -> Iterator[list[_Transactor]]:
    with ExitStack() as stack:
        running = [_Transactor(cluster.bootstrap, number) for number in range(producers)]
        for each in running:
            stack.callback(each.stop)
        _wait_all(running, time.monotonic())
        yield running


def _wait_all(running: Sequence[_Transactor], moment: float) -> None:
    def go_on() -> bool:
        return all(each.fatal or each.committed[-1:] > [moment] for each in running)

    wait_for("all producers go on", go_on, GOES_ON_S)


@contextmanager
def _cluster(make: MAKE, **settings: str) -> Iterator[Cluster]:
    with fresh(partial(make, settings={**SETTINGS, **settings})) as cluster:
        cluster.start()
        config = {"min.insync.replicas": "2"}
        wanted = NewTopic(TOPIC, PARTITIONS, len(cluster.broker_ids), config=config)
        cluster.admin().create_topics([wanted])[TOPIC].result(30)
        cluster.wait_isr(TOPIC)
        # The topic of coordinators is made by the first question.
        producer_of(cluster.bootstrap, "first")
        cluster.wait_isr(TRANSACTION_STATE_TOPIC)
        yield cluster


def commits(make: MAKE) -> Iterator[Commits]:
    """Commit small transactions with one producer, and with many."""
    with _cluster(make) as cluster:
        for producers in PRODUCERS:
            with _running(cluster, producers) as running:
                time.sleep(WARM_UP_S)
                counted = [len(each.took) for each in running]
                time.sleep(RUN_S)
                took = [
                    one
                    for each, first in zip(running, counted, strict=True)
                    for one in each.took[first:]
                ]
            yield Commits(
                producers=producers,
                per_s=len(took) / RUN_S,
                p50_ms=median(took) * 1e3,
                p99_ms=percentile(took, 0.99) * 1e3,
            )


def long_transactions(make: MAKE) -> float:
    """Write as fast as one producer can, in transactions of `LONG_MS`; returns MB/s of values."""
    with _cluster(make) as cluster:
        producer = producer_of(cluster.bootstrap, "long")
        _write_for(producer, WARM_UP_S)
        begun = time.monotonic()
        count = _write_for(producer, RUN_S)
        return count * LONG_RECORD_BYTES / 1e6 / (time.monotonic() - begun)


def _write_for(producer: Producer, length_s: float) -> int:
    value, end = b"x" * LONG_RECORD_BYTES, time.monotonic() + length_s
    count = 0
    while (now := time.monotonic()) < end:
        producer.begin_transaction()
        while time.monotonic() < now + LONG_MS / 1e3:
            try:
                for _ in range(100):
                    producer.produce(TOPIC, value)
                    count += 1
            except BufferError:
                producer.poll(0.001)
        producer.commit_transaction(CALL_S)
    return count


class _Reader:
    """Reads committed records, on a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: dict[int, list[float]] = defaultdict(list)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                # Which an error of a fetch may lead to; nothing is to be left out.
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        # By offsets of its own: no coordinator of a group has a part in what it waits for.
        self._consumer.assign(
            [TopicPartition(TOPIC, number, OFFSET_END) for number in range(PARTITIONS)]
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reads", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()

    def has_all_after(self, moment: float) -> bool:
        """Whether there was a record of each partition after a moment."""
        return all(self.seen[number][-1:] > [moment] for number in range(PARTITIONS))

    def _run(self) -> None:
        while not self._stop.is_set():
            for record in self._consumer.consume(500, 0.02):
                partition = record.partition()
                if record.error() is None and partition is not None:
                    self.seen[partition].append(time.monotonic())


def commit_gaps(make: MAKE, runs: int) -> Iterator[list[StepGaps]]:
    """Break directories under producers and a reader, and restart their brokers; so often.

    Producers and reader go on through all steps, so that each gap is seen from its begin to its
    end. A step that a side does not overcome within `GOES_ON_S` is followed by the
    next one.
    """
    for _ in range(runs):
        with _cluster(make) as cluster:
            yield _steps(cluster)


def _steps(cluster: Cluster) -> list[StepGaps]:
    with ExitStack() as stack:
        reader = _Reader(cluster.bootstrap)
        stack.callback(reader.stop)
        running = stack.enter_context(_running(cluster, FAULT_PRODUCERS))

        def go_on() -> bool:
            moment = time.monotonic()
            time.sleep(QUIET_S)
            with suppress(NotInTimeError):
                _wait_all(running, moment)
                wait_for("records are seen", lambda: reader.has_all_after(moment), GOES_ON_S)
                return True
            return False

        if not go_on():
            stood = [each.name for each in running if each.fatal] or "none of the producers"
            seen = {number: len(reader.seen[number]) for number in range(PARTITIONS)}
            raise NotInTimeError(f"not all begin; ended: {stood}; records by partition: {seen}")
        index = coordinator_partition(_name(0), len(cluster.partitions(TRANSACTION_STATE_TOPIC)))
        steps = [("nothing is done", time.monotonic())]
        go_on()
        for broken, place in ((COORDINATOR, (TRANSACTION_STATE_TOPIC, index)), (DATA, (TOPIC, 0))):
            steps.append((f"a directory dies: {broken}", time.monotonic()))
            faults = failed(cluster, [place])
            go_on()
            steps.append((f"the broker is restarted: {broken}", time.monotonic()))
            with suppress(NotInTimeError):
                healed(cluster, faults, TOPIC, TRANSACTION_STATE_TOPIC)
            go_on()
        until = time.monotonic()
    events = [
        *(("producers", each.name, each.committed) for each in running),
        *(("readers", f"{TOPIC}-{one}", reader.seen[one]) for one in range(PARTITIONS)),
    ]
    gaps = [gap for who in events for gap in gaps_of(*who, steps, until)]
    return [
        _of_step(name, begin, end, gaps, running)
        for (name, begin), (_, end) in pairwise([*steps, ("", until)])
    ]


def _of_step(
    step: str, begin: float, end: float, gaps: Sequence[Gap], running: Sequence[_Transactor]
) -> StepGaps:
    mine = sorted((gap for gap in gaps if gap.step == step), key=lambda gap: -gap.length_s)

    def count(times: Sequence[float]) -> int:
        return sum(begin < at <= end for at in times)

    return StepGaps(
        step=step,
        producers=next((gap for gap in mine if gap.side == "producers"), None),
        readers=next((gap for gap in mine if gap.side == "readers"), None),
        stood=[gap for gap in mine if gap.length_s >= STOOD_S],
        aborted=sum(count(each.aborted) for each in running),
        timed_out=sum(count(each.timed_out) for each in running),
        fatal=[each.fatal for each in running if each.fatal and begin < each.ended_at <= end],
    )
