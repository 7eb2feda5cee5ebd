"""Disks that take long for each sync: what clients see when something ends, and what is given up.

Each fsync and fdatasync below the log directories of every broker takes a fixed time longer, by a
preloaded library. Under load on all partitions, half of the segments small enough that rolls,
checkpoints and retention go on all the time, a broker is killed, a directory is closed to its
broker, replicas move between directories, and a broker is stopped and started cleanly.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.measure import MAKE, fresh
from jbodlab.vocabulary.error_code import ErrorCode
from tests.cluster.harness import (
    Cluster,
    Load,
    assert_nothing_lost,
    partitions_in,
    read_all,
    wait_for,
)
from tests.cluster.moving import alter

KEPT = "kept"
DROPPED = "dropped"
FACTOR = 3
RATE = 600
"""Messages per second, over all partitions, nearly each of them a request of its own: twice as many
keep two cores busy by themselves, and every partition, moved or not, waits for a second and more.
"""
SHARE = 25
"""Partitions of one producer."""
DEADLINE_S = 300.0
SETTINGS = {
    "log.retention.check.interval.ms": "5000",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
}
DROPPED_CONFIG = {
    "internal_segment_bytes": str(64 << 10),
    "retention_bytes": str(128 << 10),
    "file_delete_delay_ms": "1000",
}

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Partitions that lost their leader at one moment; seconds.

    Attributes:
        partitions: How many.
        leaders_s: Until the last of them has another leader in the metadata log.
        acknowledged_s: Until the last of them has acknowledged a record again.
        after_leader_s: Longest time from a partition's new leader to its next acknowledgement.
    """

    partitions: int
    leaders_s: float
    acknowledged_s: float
    after_leader_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisks:
    """One cluster on slow disks, as its clients see it; seconds.

    Attributes:
        created_s: From the first CreateTopics to an acknowledgement of every partition.
        killed: kill -9 of a broker; its session has to end first.
        closed: One directory with `chmod 000`.
        moved_s: To move the replicas of a directory to others of the same broker.
        stop_s: Clean stop of a broker under load.
        isr_s: From its start to it being in every ISR again.
        given_up: Directories that went offline although nothing was wrong with them.
    """

    delay_ms: float
    partitions: int
    created_s: float
    killed: Outage
    closed: Outage
    moved: int
    moved_s: float
    stop_s: float
    isr_s: float
    acknowledged: int
    given_up: int


def slow_disks(make: MAKE, partitions: int, delay_ms: float) -> SlowDisks:
    """Do all of it once, in one cluster."""
    kept = partitions * 5 // 6
    with fresh(partial(make, settings=SETTINGS)) as cluster:
        for broker in cluster.brokers:
            broker.preload()
        cluster.start()
        for log_dir in (one for broker in cluster.brokers for one in broker.log_dirs):
            log_dir.fails("slow", delay=delay_ms / 1000, calls="sync")
        begin = time.monotonic()
        cluster.create_topic(KEPT, kept, FACTOR, min_insync_replicas="2")
        cluster.create_topic(
            DROPPED, partitions - kept, FACTOR, min_insync_replicas="2", **DROPPED_CONFIG
        )
        with _loads(cluster, kept, partitions) as loads:
            _all_acknowledged(loads, begin, _leaders(cluster))
            created_s = time.monotonic() - begin
            _wait_isr(cluster)
            victim = cluster.broker(2)
            killed = _outage(cluster, loads, _led_by(cluster, victim.id), victim.kill)
            victim.start()
            _wait_isr(cluster)
            closed = _close_directory(cluster, loads)
            moved, moved_s = _move(cluster)
            begin = time.monotonic()
            assert victim.stop(DEADLINE_S) == 0
            stop_s = time.monotonic() - begin
            begin = time.monotonic()
            victim.start()
            _wait_isr(cluster)
            isr_s = time.monotonic() - begin
            _all_acknowledged(loads, time.monotonic(), _leaders(cluster))
        found = read_all(cluster.bootstrap, KEPT, kept, DEADLINE_S)
        for load in {loads[KEPT, number] for number in range(kept)}:
            assert_nothing_lost(load, {number: found[number] for number in load.in_turn})
        said = "".join(broker.output() for broker in cluster.brokers)
        return SlowDisks(
            delay_ms=delay_ms,
            partitions=partitions,
            created_s=created_s,
            killed=killed,
            closed=closed,
            moved=moved,
            moved_s=moved_s,
            stop_s=stop_s,
            isr_s=isr_s,
            acknowledged=sum(len(load.acknowledged) for load in set(loads.values())),
            # The closed one is out of order, and nobody else.
            given_up=said.count("went offline") - 1,
        )


@contextmanager
def _loads(cluster: Cluster, kept: int, partitions: int) -> Iterator[dict[Key, Load]]:
    """Send to all partitions in turn; returns the producer of each partition.

    librdkafka has five requests under way to a broker, of one partition each. So there are several
    producers, or they would be what is measured.
    """
    keys = [(KEPT, n) for n in range(kept)] + [(DROPPED, n) for n in range(partitions - kept)]
    found: dict[Key, Load] = {}
    with ExitStack() as stack:
        for topic in (KEPT, DROPPED):
            numbers = [number for name, number in keys if name == topic]
            for share in (numbers[at : at + SHARE] for at in range(0, len(numbers), SHARE)):
                rate = RATE * len(share) // partitions
                load = stack.enter_context(Load(cluster.bootstrap, topic, rate=rate, in_turn=share))
                found.update(((topic, number), load) for number in share)
        yield found


def _leaders(cluster: Cluster) -> dict[Key, int]:
    """The leader of each partition, as the metadata log has it."""
    topics = cluster.image().topics.by_name
    return {
        (name, number): int(state.leader)
        for name in (KEPT, DROPPED)
        for number, state in topics[name].partitions.items()
    }


def _led_by(cluster: Cluster, broker: int) -> set[Key]:
    return {key for key, leader in _leaders(cluster).items() if leader == broker}


def _wait_isr(cluster: Cluster) -> None:
    for topic in (KEPT, DROPPED):
        cluster.wait_isr(topic, DEADLINE_S)


def _all_acknowledged(
    loads: Mapping[Key, Load], since: float, keys: Mapping[Key, int] | set[Key]
) -> None:
    wait_for(
        "acknowledgements of every partition",
        lambda: all(loads[key].acknowledged_after(since, key[1]) for key in keys),
        DEADLINE_S,
    )


def _outage(
    cluster: Cluster, loads: Mapping[Key, Load], keys: set[Key], break_it: Callable[[], object]
) -> Outage:
    """Break something and follow the partitions that it led until all are written again."""
    before = _leaders(cluster)
    begin = time.monotonic()
    break_it()
    named: dict[Key, float] = {}
    end = begin + DEADLINE_S
    while len(named) < len(keys):
        now = time.monotonic()
        assert now < end, f"{len(keys) - len(named)} partitions have no new leader"
        leaders = _leaders(cluster)
        for key in keys - named.keys():
            if leaders[key] not in (before[key], -1):
                named[key] = now
        time.sleep(0.01)
    _all_acknowledged(loads, max(named.values(), default=begin), keys)
    again = {key: _first_after(loads[key], key[1], moment) for key, moment in named.items()}
    return Outage(
        partitions=len(keys),
        leaders_s=max(named.values()) - begin,
        acknowledged_s=max(again.values()) - begin,
        after_leader_s=max(again[key] - named[key] for key in keys),
    )


def _first_after(load: Load, partition: int, moment: float) -> float:
    times = load.times_of[partition]
    return times[bisect_right(times, moment)]


def _close_directory(cluster: Cluster, loads: Mapping[Key, Load]) -> Outage:
    """Take the rights of a directory away, and give them back at the next start of its broker."""
    broker = cluster.broker(1)
    log_dir = broker.log_dirs[0]
    keys = _led_by(cluster, broker.id) & _keys_in(log_dir.path)
    faults: list[Any] = []
    found = _outage(cluster, loads, keys, lambda: faults.append(log_dir.fails()))
    assert broker.stop(DEADLINE_S) == 0
    faults[0].heal()
    broker.start()
    _wait_isr(cluster)
    return found


def _move(cluster: Cluster) -> tuple[int, float]:
    """Move all replicas of one directory to another one; returns how many, and how long it took."""
    broker = cluster.broker(3)
    source, target = broker.paths[0], broker.paths[1]
    keys = _keys_in(source)
    begin = time.monotonic()
    codes = alter(cluster, broker.id, dict.fromkeys(keys, target))
    assert codes == {ErrorCode.NONE}, codes
    wait_for("the replicas moved", lambda: keys <= _keys_in(target), DEADLINE_S)
    return len(keys), time.monotonic() - begin


def _keys_in(directory: Path) -> set[Key]:
    return {
        (topic, partition)
        for topic in (KEPT, DROPPED)
        for partition in partitions_in(directory, topic)
    }
