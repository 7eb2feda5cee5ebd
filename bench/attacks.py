"""Cost of one careless client for the others: how long they wait, and memory that stays."""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

from confluent_kafka.admin import NewTopic

from bench import attackers
from bench.bystander import Bystander
from bench.measure import MAKE, fresh
from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey
from tests.cluster.harness import Cluster, on_disk

CALM, HELD, MANY = "calm", "held", "many"
MANY_PARTITIONS = 3_000
CREATED = f"a topic of {MANY_PARTITIONS} partitions is created"
SETTLE_S = 10.0
"""After an attack, before memory is looked at."""
LOOK_S = 0.05
DEADLINE_S = 180.0

Action = Callable[[int], None]
"""Attacks the broker at a port; runs in another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Effect of one attack on others.

    Attributes:
        longest_ms: The longest that a request of somebody else has waited.
        busy_ms: The longest that the event loop has worked in the course of such a request.
        before_mb: Resident memory before.
        most_mb: At most.
        after_mb: Some time afterwards.
    """

    name: str
    longest_ms: float
    busy_ms: float
    before_mb: float
    most_mb: float
    after_mb: float

    @property
    def text(self) -> str:
        """The figures in one line."""
        return (
            f"{self.longest_ms:5.0f}  ({self.busy_ms:4.0f})   "
            f"{self.before_mb:.0f} / {self.most_mb:.0f} / {self.after_mb:.0f}"
        )


def attacks(make: MAKE, wanted: str) -> Iterator[Attack]:
    """Attack a broker in every way whose name contains a word; empty for all of them."""
    with fresh(partial(make, brokers=2, dirs=1)) as cluster:
        cluster.start()
        _create_topics(cluster)
        # Before all others: there may be no room for it later.
        broker = cluster.broker(cluster.broker_ids[0])
        with Bystander(broker.port, broker.pid, CALM) as bystander:
            victim = _Victim(cluster, bystander)
            # Always: others ask for them.
            created = victim.attacked(CREATED, partial(_create_many, cluster))
            if wanted in CREATED:
                yield created
            yield from _all_attacks(victim, wanted)


def _all_attacks(victim: _Victim, wanted: str) -> Iterator[Attack]:
    name = f"{attackers.ODD_FRAMES} odd frames"
    if wanted in name:
        # Before other requests, as the broker has seen few versions yet.
        yield victim.attacked(name, partial(_until_done, attackers.send_odd))
    for name, action in _requests(victim):
        if wanted in name:
            yield victim.attacked(name, partial(_until_done, action))
    if wanted in "silent connections":
        yield from _silent(victim)
    for batch_bytes in (attackers.BATCH_BYTES, attackers.SMALL_BATCH_BYTES):
        name = f"{attackers.PRODUCERS} producers of {batch_bytes} bytes, a follower that stands"
        if wanted in name:
            action = partial(attackers.produce_to_all, HELD, batch_bytes)
            yield victim.attacked(name, partial(_with_frozen_follower, victim, action))


class _Victim:
    """The attacked broker."""

    def __init__(self, cluster: Cluster, bystander: Bystander) -> None:
        self._bystander = bystander
        self.broker = cluster.broker(cluster.broker_ids[0])
        self.follower = cluster.broker(cluster.broker_ids[1])
        self._most_mb = 0.0

    def attacked(self, name: str, attack: Callable[[_Victim], None]) -> Attack:
        """Let an attack happen, and measure what it does."""
        before_mb = self.look()
        self._most_mb = before_mb
        self._bystander.waits()
        attack(self)
        self.looks(SETTLE_S)
        waits = self._bystander.waits()
        found = Attack(
            name=name,
            longest_ms=waits.longest_ms,
            busy_ms=waits.busy_ms,
            before_mb=before_mb,
            after_mb=self.look(),
            most_mb=self._most_mb,
        )
        print(f"{name}: {found.text}", file=sys.stderr)
        return found

    def looks(self, seconds: float, until: Callable[[], object] = lambda: False) -> None:
        """Watch the memory for some time, or until something is so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            self.look()
            time.sleep(LOOK_S)

    def look(self) -> float:
        """Return the resident memory, in MB of 10^6 bytes."""
        status = Path(f"/proc/{self.broker.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        found = int(line.split()[1]) * 1024 / 1e6
        self._most_mb = max(self._most_mb, found)
        return found


def _create_topics(cluster: Cluster) -> None:
    first, second = cluster.broker_ids
    _create(
        cluster,
        NewTopic(CALM, 1, replica_assignment=[[first]]),
        NewTopic(HELD, 1, replica_assignment=[[first, second]]),
    )


def _create_many(cluster: Cluster, victim: _Victim) -> None:
    """Create a topic of many partitions, and wait until all replicas have their folders."""
    first = cluster.broker_ids[0]
    replicas = [[first]] * MANY_PARTITIONS
    with ThreadPoolExecutor() as pool:
        many = NewTopic(MANY, MANY_PARTITIONS, replica_assignment=replicas)
        created = pool.submit(_create, cluster, many)
        victim.looks(DEADLINE_S, created.done)
        created.result()
    # Metadata name a leader before its log is there.
    victim.looks(DEADLINE_S, lambda: len(on_disk(cluster, first, MANY)) == MANY_PARTITIONS)


def _create(cluster: Cluster, *topics: NewTopic) -> None:
    for future in cluster.admin().create_topics([*topics], request_timeout=60).values():
        future.result(DEADLINE_S)
    for topic in topics:
        cluster.wait_leaders(topic.topic)


def _requests(victim: _Victim) -> Iterator[tuple[str, Action]]:
    """Yield requests that are too large, those that are just not, and many of the usual ones."""
    millions = (("Metadata, 3 MiB", 1_000_000, 1), ("Metadata, 14 MiB", 1_000_000, 12))
    for name, count, letters in millions:
        yield f"{name}, {count} names", _one(attackers.many_names, count, letters)
    for name, make, size in (
        ("Fetch, 8 MiB", attackers.many_fetched, 500_000),
        ("ListOffsets, 6 MiB", attackers.many_offsets, 500_000),
        ("Fetch", attackers.many_fetched, _most(ApiKey.FETCH)),
        ("ListOffsets", attackers.many_offsets, _most(ApiKey.LIST_OFFSETS)),
    ):
        yield f"{name}, {size} partitions", _one(make, MANY, MANY_PARTITIONS, size)
    count = _most(ApiKey.METADATA)
    yield f"Metadata, {count} names", _one(attackers.many_names, count, 20)
    for name, make_one, key in (
        ("CreateTopics", attackers.many_created, ApiKey.CREATE_TOPICS),
        ("DeleteTopics", attackers.many_deleted, ApiKey.DELETE_TOPICS),
    ):
        yield f"{name}, {_most(key)} topics", _one(make_one, _most(key))
    path = str(victim.broker.paths[0])
    count = _most(ApiKey.ALTER_REPLICA_LOG_DIRS)
    yield f"AlterReplicaLogDirs, {count} partitions", _one(attackers.many_moved, path, count)
    count = _most(ApiKey.DESCRIBE_CONFIGS)
    yield f"DescribeConfigs, {count} topics", _one(attackers.many_described, CALM, count)
    yield (
        f"Metadata of {MANY_PARTITIONS} partitions, {attackers.ASKERS} clients",
        partial(attackers.ask_at_once, attackers.all_topics),
    )
    yield (
        f"Fetch of {MANY_PARTITIONS} partitions, {attackers.ASKERS} clients",
        partial(
            attackers.ask_at_once,
            partial(attackers.many_fetched, MANY, MANY_PARTITIONS, MANY_PARTITIONS),
        ),
    )


def _most(key: ApiKey) -> int:
    """Return how many things a request may name; the arrays around them count, too."""
    return APIS[key].max_items - 2


def _one(make: Callable[..., bytes], *arguments: object) -> Action:
    return partial(attackers.send_one, partial(make, *arguments))


def _until_done(action: Action, victim: _Victim) -> None:
    with _attacking(action, victim) as attacker:
        victim.looks(DEADLINE_S, lambda: not attacker.is_alive())
        assert attacker.exitcode == 0, "the attack has not come to its end"


def _silent(victim: _Victim) -> Iterator[Attack]:
    """Open many connections, and close all of them at once."""
    opened = multiprocessing.get_context("spawn").Event()
    name = f"{attackers.CONNECTIONS} silent connections"
    with _attacking(partial(attackers.hold_silent, opened), victim) as attacker:

        def wait_opened(_: _Victim) -> None:
            victim.looks(DEADLINE_S, opened.is_set)
            assert opened.is_set(), "the connections were not opened"

        yield victim.attacked(f"{name}, opened", wait_opened)
        yield victim.attacked(f"{name}, closed at once", lambda _: attacker.kill())


def _with_frozen_follower(held: _Victim, action: Action, victim: _Victim) -> None:
    held.follower.freeze()
    try:
        with _attacking(action, victim) as attacker:
            # The follower is fenced meanwhile, and what waits for it is answered.
            victim.looks(DEADLINE_S, lambda: not attacker.is_alive())
            assert attacker.exitcode == 0, "the attack has not come to its end"
    finally:
        held.follower.thaw()


@contextmanager
def _attacking(action: Action, victim: _Victim) -> Iterator[BaseProcess]:
    process = multiprocessing.get_context("spawn").Process(
        target=action, args=(victim.broker.port,), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()
