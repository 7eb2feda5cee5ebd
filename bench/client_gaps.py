"""Effects of a leader's dead directory on clients, each library with its own default settings.

Two topics of one partition are led from the same directory. To one a program of the library writes;
the other one is read by a program of the library, in a group, and written by librdkafka. The
directory breaks, and is healed with a restart of its broker before the next pair of topics.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import NewTopic

from bench.measure import MAKE, fresh, longest_s
from jbodlab.vocabulary.error_code import ErrorCode
from tests.clients.members import MemberProcess
from tests.clients.programs import BY_DEFAULT
from tests.cluster.harness import Cluster, Load, read_all, wait_for
from tests.cluster.moving import alter

RATE = 400
"""Records a second. kafka-go's writer waits for a hundred of them before it sends any."""
QUIET_S = 2.0
"""Watched before and after; the second time from when all goes on."""
BEGINS_S = 120.0
"""Within which a program has begun: on a busy machine a JVM takes long."""
GOES_ON_S = 60.0
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One broken directory.

    Attributes:
        kind: Of the fault.
        produce_s: Longest time without an acknowledgement, from before the fault on.
        consume_s: Longest time without a record; the time that its producer stood still is in it.
        quiet_produce_s, quiet_consume_s: The same before the fault.
        lost: Records that were acknowledged and are not there.
        unread: Records that were not consumed a minute after all was written.
        twice: Records that are there twice, or were consumed twice.
        given_up: Records that the producer gave up, with the first reason.
    """

    kind: str
    produce_s: float
    consume_s: float
    quiet_produce_s: float
    quiet_consume_s: float
    lost: int
    unread: int
    twice: int
    given_up: Sequence[str]


def client_gaps(make: MAKE, library: str, kinds: Iterable[str]) -> Iterator[Gap]:
    """Break a leader's directory once for each kind; what each run found, as it ends.

    Raises:
        NoKafkaError: the library is not to be had here, with the reason.
    """
    command = BY_DEFAULT[library].command()
    with fresh(partial(make, settings=SETTINGS)) as cluster:
        cluster.start()
        for number, kind in enumerate(kinds):
            yield _gap(cluster, command, number, kind)


def _gap(cluster: Cluster, command: Sequence[str], number: int, kind: str) -> Gap:
    written, read = f"written-{number}", f"read-{number}"
    leader, directory = _topics_in_one_directory(cluster, written, read)
    with ExitStack() as stack:
        load = stack.enter_context(Load(cluster.bootstrap, read, rate=RATE))
        producer, consumer = (
            MemberProcess([*command], cluster.bootstrap, *arguments)
            for arguments in (
                (written, str(RATE), "produce"),
                (read, f"group of {read}", "default"),
            )
        )
        stack.callback(producer.close)
        stack.callback(consumer.close)
        _wait_both(producer, consumer, time.monotonic(), BEGINS_S)
        quiet_since = time.monotonic()
        time.sleep(QUIET_S)
        since = time.monotonic()
        fault = cluster.log_dir_at(directory).fails(kind)
        wait_for(
            "another leader", lambda: {leader, -1}.isdisjoint(_leaders(cluster, written, read))
        )
        _wait_both(producer, consumer, time.monotonic(), GOES_ON_S)
        time.sleep(QUIET_S)
        until = time.monotonic()
        producer.leave()
        load.stop()
        acknowledged = {(*place, str(value)) for value, place in load.acknowledged.items()}

        def missed() -> int:
            return len(acknowledged - {(s.partition, s.offset, s.value) for s in consumer.seen})

        # Some commit each record before they ask for the next, and come late.
        end = time.monotonic() + GOES_ON_S
        while (unread := missed()) and time.monotonic() < end:
            time.sleep(0.5)
        consumer.leave()
    seen_twice = len(consumer.seen) - len({record.offset for record in consumer.seen})
    there = [value.decode() for _, value in read_all(cluster.bootstrap, written, 1)[0]]
    found = Gap(
        kind=kind,
        produce_s=longest_s(producer.acknowledged.values(), since, until),
        consume_s=longest_s((seen.at_s for seen in consumer.seen), since, until),
        quiet_produce_s=longest_s(producer.acknowledged.values(), quiet_since, since),
        quiet_consume_s=longest_s((seen.at_s for seen in consumer.seen), quiet_since, since),
        lost=len(producer.acknowledged.keys() - set(there)),
        unread=unread,
        twice=len(there) - len(set(there)) + seen_twice,
        given_up=producer.errors,
    )
    fault.heal()
    broker = cluster.broker(leader)
    assert broker.stop() == 0
    broker.start()
    cluster.wait_served()
    for topic in (written, read):
        cluster.wait_isr(topic)
    return found


def _topics_in_one_directory(cluster: Cluster, *topics: str) -> tuple[int, Path]:
    """Create topics with one leader; returns it, and the directory in which it has all of them."""
    replicas = [cluster.broker_ids]
    settings = {"min.insync.replicas": "2"}
    wanted = [NewTopic(name, 1, replica_assignment=replicas, config=settings) for name in topics]
    for future in cluster.admin().create_topics(wanted).values():
        future.result(30)
    leader = cluster.broker(cluster.broker_ids[0])
    for topic in topics:
        cluster.wait_isr(topic)
    path = leader.log_dir_of(topics[0], 0).path
    elsewhere = [topic for topic in topics if leader.log_dir_of(topic, 0).path != path]
    if elsewhere:
        codes = alter(cluster, leader.id, {(topic, 0): path for topic in elsewhere})
        assert codes == {ErrorCode.NONE}, codes
    wait_for(
        f"{elsewhere} in {path}",
        lambda: {leader.log_dir_of(topic, 0).path for topic in topics} == {path},
    )
    return leader.id, path


def _leaders(cluster: Cluster, *topics: str) -> set[int]:
    return {cluster.leaders(topic)[0] for topic in topics}


def _wait_both(
    producer: MemberProcess, consumer: MemberProcess, moment: float, deadline_s: float
) -> None:
    """Wait until something was written and something consumed after a moment."""

    def goes_on() -> bool:
        producer.assert_runs()
        consumer.assert_runs()
        written, seen = list(producer.acknowledged.values()), consumer.seen
        return bool(written and written[-1] > moment and seen and seen[-1].at_s > moment)

    wait_for("both go on", goes_on, deadline_s, last_seen=lambda: (producer, consumer))
