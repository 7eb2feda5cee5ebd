"""Appends by this broker itself, and who hears of the leadership that it depends on."""

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
from jbodlab.vocabulary.ids import LeaderEpoch
from tests.broker.replicas import TOPIC, TOPIC_ID, TP, batch, change, partition_record, until
from tests.broker.stage import D2, D3, TWO, Stage


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


class Cluster(Stage):
    """Broker 1 leads, broker 2 follows; who hears of it is written down."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.leadership = Leadership()
        self.host.manager.leaderships[TOPIC] = self.leadership

    async def start(self, isr: tuple[int, ...], **configs: str) -> Partition:
        return await self.begin(1, 2, isr=isr, min_insync_replicas="2", **configs)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path) as cluster:
        yield cluster


async def test_own_batch_gets_its_offset_at_once_and_is_committed_with_the_high_watermark(
    cluster: Cluster,
) -> None:
    partition = await cluster.start((1, 2))
    assert append_own(partition, batch(3)).next_offset == 3
    assert append_own(partition, batch(2)).base_offset == 3
    assert cluster.leadership.heard == ["leads in 0"]
    await cluster.written()
    cluster.fetched(TWO, 5)

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
        cluster.apply(change(leader=2))
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
        cluster.fail()
    else:
        cluster.apply(record)
    assert cluster.leadership.heard == ["leads in 0", *ended]


async def test_topics_that_nobody_asked_for_are_not_told_of(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.host.manager.leaderships = {"another": cluster.leadership}
    await cluster.start((1, 2))
    await until(lambda: cluster.host.registry.partition(TP) is not None)
    await cluster.host.stop()
    assert cluster.leadership.heard == []
