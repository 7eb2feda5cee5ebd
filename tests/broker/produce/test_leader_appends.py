"""What this broker appends itself, and who hears of the leadership that it depends on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.produce.leader_appends import append_own
from broker.replica.partition.partition import Partition
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from tests.broker.replicas import (
    TOPIC,
    TOPIC_ID,
    TP,
    Host,
    Metadata,
    batch,
    broker,
    change,
    config,
    directory_id,
    feature,
    partition_record,
    topic,
    until,
)

TWO = BrokerId(2)
D2, D3 = directory_id(20), directory_id(30)


class Leadership:
    """Writes down what it hears, with the state that it finds."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def leadership_began(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        self.heard.append(f"leads in {leader_epoch}")

    def leadership_ended(self, partition: Partition) -> None:
        self.heard.append(f"ended, now {type(partition.state).__name__}")

    def committed(self, partition: Partition, high_watermark: int) -> None:
        assert partition.high_watermark == high_watermark
        self.heard.append(f"committed {high_watermark}")


class Cluster:
    """Broker 1 with real directories leads; broker 2 is told of by the test."""

    def __init__(self, root: Path) -> None:
        self.host = Host(root)
        self.leadership = Leadership()
        self.host.manager.leaderships[TOPIC] = self.leadership
        self.metadata = Metadata(self.host.manager.roles)

    async def start(self, isr: tuple[int, ...], **configs: str) -> Partition:
        self.metadata.apply(
            feature(),
            broker(1, *self.host.directories),
            broker(2, D2),
            broker(3, D3),
            config("min.insync.replicas", "2"),
            *(config(name.replace("_", "."), value) for name, value in configs.items()),
            topic(),
            partition_record((1, 2), (self.host.directory(0), D2), isr=isr),
        )
        return await self.host.online()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        yield cluster
    finally:
        await cluster.host.stop()


async def test_own_batch_gets_its_offset_at_once_and_is_committed_with_the_high_watermark(
    cluster: Cluster,
) -> None:
    partition = await cluster.start((1, 2))
    assert append_own(partition, batch(3)).next_offset == 3
    assert append_own(partition, batch(2)).base_offset == 3
    assert cluster.leadership.heard == ["leads in 0"]
    assert partition.log is not None
    await partition.log.written()
    partition.in_sync.follower_fetched(TWO, 5, 7)

    assert cluster.leadership.heard == ["leads in 0", "committed 5"]


@pytest.mark.parametrize(
    ("isr", "configs", "code"),
    [
        ((1,), {}, ErrorCode.NOT_ENOUGH_REPLICAS),
        ((1, 2), {"max_message_bytes": "100"}, ErrorCode.MESSAGE_TOO_LARGE),
        ((1, 2), {"internal_segment_bytes": "100"}, ErrorCode.RECORD_LIST_TOO_LARGE),
        ((2, 1), {}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
async def test_refused_own_batch_changes_nothing(
    cluster: Cluster, isr: tuple[int, ...], configs: dict[str, str], code: ErrorCode
) -> None:
    partition = await cluster.start(isr, **configs)
    if isr[0] == 2:
        cluster.metadata.apply(change(leader=2))
    with pytest.raises(KafkaError) as caught:
        append_own(partition, batch(10))
    assert caught.value.code is code
    assert partition.log is not None
    assert partition.log.end_offset == 0


@pytest.mark.parametrize(
    ("record", "ended"),
    [
        (change(leader=2), ["ended, now Following"]),
        (change(leader=1), ["ended, now Leading", "leads in 1"]),
        (None, ["ended, now Offline"]),
        (RemoveTopicRecord(topic_id=TOPIC_ID), ["ended, now Deleted"]),
        (partition_record((2, 3), (D2, D3), leader_epoch=1), ["ended, now Deleted"]),
    ],
    ids=["other leader", "higher epoch", "directory", "deleted", "gone"],
)
async def test_end_of_a_leadership_is_told_in_the_turn_of_its_cause(
    cluster: Cluster, record: Record | None, ended: list[str]
) -> None:
    append_own(await cluster.start((1, 2)), batch())
    if record is None:
        cluster.host.log_dirs.fail(cluster.host.dirs[0], "test")
    else:
        cluster.metadata.apply(record)
    assert cluster.leadership.heard == ["leads in 0", *ended]


async def test_topics_that_nobody_asked_for_are_not_told_of(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.host.manager.leaderships = {"another": cluster.leadership}
    await cluster.start((1, 2))
    await until(lambda: cluster.host.registry.partition(TP) is not None)
    await cluster.host.stop()
    assert cluster.leadership.heard == []
