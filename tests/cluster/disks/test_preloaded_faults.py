"""Disks of running brokers that fail, drag or hang below the system calls, on open files too."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.harness import (
    Cluster,
    Load,
    assert_nothing_lost,
    made,
    partitions_in,
    read_all,
    wait_for,
)

pytestmark = pytest.mark.cluster

SETTINGS = {
    "log.initial.task.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "3000",
}
PARTITIONS = 6
VALUES = [b"%d" % number for number in range(9)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose brokers can each be given rules; every test breaks another broker."""
    root = make_folder()
    cluster = made(root / "cluster", dirs=2, settings=SETTINGS)
    try:
        for broker in cluster.brokers:
            broker.preload()
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        remove_folder(root)


def first_directory(cluster: Cluster, broker: int, topic: str) -> tuple[Path, set[int]]:
    """Where partition 0 is, and all that is there, once every replica is somewhere."""
    paths = cluster.broker(broker).paths

    def all_made() -> dict[Path, set[int]] | None:
        found = {path: partitions_in(path, topic) for path in paths}
        return found if sum(map(len, found.values())) == PARTITIONS else None

    found = wait_for(f"all replicas of {topic} at broker {broker}", all_made)
    return next((path, partitions) for path, partitions in found.items() if 0 in partitions)


def produce(topic: str, value: bytes) -> Any:
    """A request with one record that waits for all replicas."""
    kio = import_module("kio.schema.produce.v9.request")
    records = build_batch([(None, value)], timestamp_ms=int(time.time() * 1000))
    return kio.ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout=timedelta(seconds=30),
        topic_data=(
            kio.TopicProduceData(
                name=topic, partition_data=(kio.PartitionProduceData(index=0, records=records),)
            ),
        ),
    )


def in_sync_without(cluster: Cluster, broker: int, topic: str, partitions: set[int]) -> bool:
    isr, leaders = cluster.isr(topic), cluster.leaders(topic)
    return all(broker not in isr[p] and leaders[p] not in (broker, -1) for p in partitions)


def test_a_slow_disk_costs_time_and_nothing_else(cluster: Cluster) -> None:
    cluster.create_topic("slow", PARTITIONS, 3)
    directory, _ = first_directory(cluster, 1, "slow")

    with (
        cluster.log_dir_at(directory).fails("slow", delay="40ms", calls="sync") as fault,
        Load(cluster.bootstrap, "slow") as load,
    ):
        wait_for("a few slow syncs", lambda: fault.broken.count >= 3)

    assert_nothing_lost(load, read_all(cluster.bootstrap, "slow", PARTITIONS))
    assert "went offline" not in cluster.broker(1).output()


@pytest.mark.parametrize(
    ("fault", "calls", "code"),
    [
        ("blocks", "write", "ENOSPC"),
        ("inodes", "create", "EDQUOT"),
    ],
)
def test_a_disk_that_takes_no_more_unannounced_is_full_and_goes_on(
    cluster: Cluster, fault: str, calls: str, code: str
) -> None:
    """`statvfs` tells of room all the time, and the disk stops in the middle of appends."""
    many, alone = f"many-{fault}", f"alone-{fault}"
    # New segments are made all the time.
    cluster.create_topic(many, PARTITIONS, 3, segment_ms="500")
    cluster.create_topic(alone, PARTITIONS, 1, segment_ms="500")
    broker = cluster.broker(1)
    directory, touched = first_directory(cluster, 1, many)
    said = len(broker.output())

    def condition() -> str:
        found = re.findall(
            rf"log directory {directory} \(\S+\) is (\w+), was", broker.output()[said:]
        )
        return found[-1] if found else ""

    with (
        Load(cluster.bootstrap, many) as load,
        Load(cluster.bootstrap, alone) as load_alone,
    ):
        with cluster.log_dir_at(directory).fails("eio", errno=code, calls=calls) as broken:
            wait_for(f"{directory} is FULL", lambda: condition() == "FULL", last_seen=condition)
            wait_for(
                f"replicas in {directory} out of leadership and ISR",
                lambda: in_sync_without(cluster, 1, many, touched),
            )
            moment = time.monotonic()
            wait_for(
                "acknowledgements of every partition that can be led elsewhere",
                lambda: all(load.acknowledged_after(moment, p) for p in range(PARTITIONS)),
            )
            # All records that are there are read, to the end.
            there = read_all(cluster.bootstrap, alone, PARTITIONS)
            assert broken.broken.count >= 1
        wait_for(f"{directory} is HEALTHY", lambda: condition() == "HEALTHY", last_seen=condition)
        healed = time.monotonic()
        wait_for(
            "acknowledgements of every partition without other replicas",
            lambda: all(load_alone.acknowledged_after(healed, p) for p in range(PARTITIONS)),
        )
        cluster.wait_isr(many)

    assert_nothing_lost(load, read_all(cluster.bootstrap, many, PARTITIONS))
    found = read_all(cluster.bootstrap, alone, PARTITIONS)
    assert_nothing_lost(load_alone, found)
    assert all(found[p][: len(there[p])] == there[p] for p in range(PARTITIONS))
    assert "went offline" not in broker.output()


def test_a_disk_that_fails_appends_to_open_segments_is_left_by_its_broker(cluster: Cluster) -> None:
    cluster.create_topic("failing", PARTITIONS, 3)
    directory, touched = first_directory(cluster, 2, "failing")

    with Load(cluster.bootstrap, "failing") as load:
        # The probe of the directory goes on well: it writes to no log.
        fault = cluster.log_dir_at(directory).fails("eio", calls="write", files="*.log")
        wait_for(
            f"replicas in {directory} out of leadership and ISR",
            lambda: in_sync_without(cluster, 2, "failing", touched),
        )
        failed = time.monotonic()
        wait_for("an acknowledgement", lambda: load.acknowledged_after(failed, 0))

    assert_nothing_lost(load, read_all(cluster.bootstrap, "failing", PARTITIONS))
    assert fault.broken.count >= 1
    assert f"log directory {directory}" in cluster.broker(2).output()


def test_a_disk_that_hangs_is_left_and_the_other_serves_on(cluster: Cluster) -> None:
    cluster.create_topic("hanging", PARTITIONS, 3)
    directory, touched = first_directory(cluster, 3, "hanging")
    others = set(range(PARTITIONS)) - touched

    with Load(cluster.bootstrap, "hanging") as load:
        fault = cluster.log_dir_at(directory).fails("hang", for_=120)
        wait_for(
            f"replicas in {directory} out of leadership and ISR",
            lambda: in_sync_without(cluster, 3, "hanging", touched),
        )
        hung = time.monotonic()
        wait_for("an acknowledgement", lambda: load.acknowledged_after(hung, 0))
    isr = cluster.isr("hanging")
    assert fault.broken.count >= 1
    fault.heal()

    assert_nothing_lost(load, read_all(cluster.bootstrap, "hanging", PARTITIONS))
    assert others
    assert all(3 in isr[partition] for partition in others)


def test_a_clean_stop_answers_what_is_written(cluster: Cluster) -> None:
    """As many requests of one connection as a broker takes, on a disk that writes slowly."""
    cluster.create_topic("stopping", 1, 1)
    broker = cluster.leader("stopping", 0)
    fault = broker.log_dir_of("stopping", 0).fails(
        "slow", delay="300ms", calls="write", files="*.log"
    )

    async def answers() -> list[Any]:
        connection = await KafkaConnection.open(
            "127.0.0.1", broker.port, client_id="stopping", timeout_s=10
        )
        # The first of its kind that a broker gets is worked on alone.
        first = await connection.call(ApiKey.PRODUCE, 9, produce("stopping", VALUES[0]))
        slow = fault.broken.count
        calls = [
            asyncio.create_task(connection.call(ApiKey.PRODUCE, 9, produce("stopping", value)))
            for value in VALUES[1:]
        ]
        async with asyncio.timeout(10):
            while fault.broken.count == slow:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.005)
        broker.signal(signal.SIGTERM)
        answers = [first, *await asyncio.gather(*calls)]
        connection.close()
        return [each.responses[0].partition_responses[0] for each in answers]

    answered = asyncio.run(answers())
    assert {ErrorCode(int(each.error_code)) for each in answered} == {ErrorCode.NONE}
    assert [int(each.base_offset) for each in answered] == list(range(len(VALUES)))
    assert broker.wait_ended() == 0
    fault.heal()
    broker.start()
    cluster.wait_served()
    assert [value for _, value in read_all(cluster.bootstrap, "stopping", 1)[0]] == VALUES


def test_servers_work_with_the_library_loaded_and_no_rule(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        assert broker.preload().attached
        assert "no faults can be injected" not in broker.output()
