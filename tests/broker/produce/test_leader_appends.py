"""What this broker appends itself, and who hears of the leadership that it depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.produce.leader_appends import append_own
from broker.replica.partition import Partition
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from tests.broker.replicas import (
    DEADLINE_S,
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


def run(
    tmp_path: Path,
    test: Callable[[Cluster, Partition], object],
    isr: tuple[int, ...] = (1, 2),
    **configs: str,
) -> list[str]:
    async def main() -> list[str]:
        cluster = Cluster(tmp_path)
        partition = await cluster.start(isr, **configs)
        try:
            result = test(cluster, partition)
            if asyncio.iscoroutine(result):
                await asyncio.wait_for(result, DEADLINE_S)
        finally:
            await cluster.host.stop()
        return cluster.leadership.heard

    return asyncio.run(main())


def test_own_batch_gets_its_offset_at_once_and_is_committed_with_the_high_watermark(
    tmp_path: Path,
) -> None:
    async def test(cluster: Cluster, partition: Partition) -> None:
        assert append_own(partition, batch(3)).next_offset == 3
        assert append_own(partition, batch(2)).base_offset == 3
        assert cluster.leadership.heard == ["leads in 0"]
        assert partition.log is not None
        await partition.log.written()
        partition.in_sync.follower_fetched(TWO, 5, 7)

    assert run(tmp_path, test) == ["leads in 0", "committed 5"]


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
def test_refused_own_batch_changes_nothing(
    tmp_path: Path, isr: tuple[int, ...], configs: dict[str, str], code: ErrorCode
) -> None:
    def test(cluster: Cluster, partition: Partition) -> None:
        if isr[0] == 2:
            cluster.metadata.apply(change(leader=2))
        with pytest.raises(KafkaError) as caught:
            append_own(partition, batch(10))
        assert caught.value.code is code
        assert partition.log is not None
        assert partition.log.end_offset == 0

    run(tmp_path, test, isr, **configs)


@pytest.mark.parametrize("how", ["other leader", "higher epoch", "directory", "deleted", "gone"])
def test_end_of_a_leadership_is_told_in_the_turn_of_its_cause(tmp_path: Path, how: str) -> None:
    def test(cluster: Cluster, partition: Partition) -> None:
        append_own(partition, batch())
        match how:
            case "other leader":
                cluster.metadata.apply(change(leader=2))
            case "higher epoch":
                cluster.metadata.apply(change(leader=1))
            case "directory":
                cluster.host.log_dirs.fail(cluster.host.dirs[0], "test")
            case "deleted":
                cluster.metadata.apply(RemoveTopicRecord(topic_id=TOPIC_ID))
            case "gone":
                cluster.metadata.apply(
                    partition_record((2, 3), (D2, D3), leader_epoch=1),
                )
        cluster.leadership.heard.append("next turn")

    ended = {
        "other leader": ["ended, now Following"],
        "higher epoch": ["ended, now Leading", "leads in 1"],
        "directory": ["ended, now Offline"],
        "deleted": ["ended, now Deleted"],
        "gone": ["ended, now Deleted"],
    }
    heard = run(tmp_path, test)
    assert heard[: heard.index("next turn")] == ["leads in 0", *ended[how]]


def test_topics_that_nobody_asked_for_are_not_told_of(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path)
        cluster.host.manager.leaderships = {"another": cluster.leadership}
        await cluster.start((1, 2))
        await until(lambda: cluster.host.registry.partition(TP) is not None)
        await cluster.host.stop()
        assert cluster.leadership.heard == []

    asyncio.run(main())
