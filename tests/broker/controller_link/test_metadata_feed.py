from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.controller_link.channel import ControllerChannel
from broker.controller_link.metadata_feed import NO_ROOM_S, MetadataFeed
from broker.disk.directory.log_dirs import LogDirs
from jbodlab.controller_api.grpc_transport import GrpcTransport
from jbodlab.controller_api.requests import (
    MetadataStreamRequest,
    MetadataStreamResponse,
    SnapshotPiece,
)
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.metadata_log import MetadataLog
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshots import (
    latest_snapshot,
    parse_name,
    snapshot_bytes,
    snapshot_paths,
)
from jbodlab.metadata.records.config_records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.record_batch.record_batch import read_header
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.directory_id import MIGRATING
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicIdPartition
from tests.broker.controller_link.scripted_controller import ScriptedController, serving
from tests.broker.disks import CrampedDisk, eventually, make_log_dirs
from tests.broker.replicas import partition_record
from tests.metadata_batches import data_batch
from tests.snapshot_files import image_records
from tests.waiting import quiet, set_forward


def topic_id(number: int) -> TopicId:
    return TopicId(UUID(int=number << 80))


def topic(number: int) -> VersionedRecord:
    return VersionedRecord(TopicRecord(name=f"t{number}", topic_id=topic_id(number)), 0)


def partition(number: int) -> VersionedRecord:
    record = partition_record((3,), (MIGRATING,), topic_id=topic_id(number))
    return VersionedRecord(record, 1)


def key(number: int) -> TopicIdPartition:
    return TopicIdPartition(topic_id(number), 0)


LEVEL = VersionedRecord(FeatureLevelRecord(name="metadata.version", feature_level=30), 0)


def batch(offset: int, *records: VersionedRecord, epoch: int = 1) -> bytes:
    return data_batch(records, base_offset=offset, epoch=epoch, timestamp_ms=1_000 + offset)


def response(*batches: bytes, high_watermark: int = 100) -> MetadataStreamResponse:
    return MetadataStreamResponse(high_watermark=Offset(high_watermark), records=b"".join(batches))


class Listener:
    def __init__(self) -> None:
        self.seen: list[tuple[list[str], list[str]]] = []
        self.image: MetadataImage | None = None

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        created = sorted(delta.topics.created.values())
        self.seen.append((created, sorted(each.name for each in delta.deleted_topics.values())))
        self.image = image


class Node:
    """A broker's side: directories, channel and feed."""

    def __init__(
        self,
        tmp_path: Path,
        port: int,
        *,
        disk: CrampedDisk | None = None,
        is_forgotten: bool = False,
        **settings: int,
    ) -> None:
        async def forgotten(epoch: int) -> bool:
            return is_forgotten

        self.fatal: list[str] = []
        self.log_dirs: LogDirs = make_log_dirs(
            tmp_path, 1, metadata_fs=disk, on_fatal=self.fatal.append
        )
        self.listener = Listener()
        self.channel = ControllerChannel(GrpcTransport(f"127.0.0.1:{port}"))
        self.feed = MetadataFeed(
            channel=self.channel,
            metadata_dir=self.log_dirs.metadata_dir,
            broker_id=BrokerId(3),
            cluster_id="c",
            listener=self.listener,
            on_fatal=self.fatal.append,
            monotonic_s=system_environment().monotonic_s,
            wall_ms=system_environment().wall_ms,
            settings=MetadataLogSettings(**settings),
            is_forgotten=forgotten,
        )

    async def start(self) -> None:
        """Begin to follow, and to act on it."""
        await self.feed.start()
        self.feed.begin_publishing()

    async def __aenter__(self) -> Node:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def topics(self) -> list[str]:
        return sorted(self.feed.image.topics.by_name)

    async def stop(self) -> None:
        await self.feed.stop()
        await self.channel.close()
        self.log_dirs.stop()


def request(offset: int, epoch: int, last: bytes = b"") -> MetadataStreamRequest:
    """Return the request of a broker whose last batch is this one."""
    return MetadataStreamRequest(
        broker_id=BrokerId(3),
        cluster_id="c",
        fetch_offset=Offset(offset),
        last_fetched_epoch=LeaderEpoch(epoch),
        last_fetched_crc=read_header(last).crc if last else None,
    )


async def test_the_listener_gets_the_whole_image_first_and_every_change_after_it(
    controller: ScriptedController, tmp_path: Path, port: int
) -> None:
    controller.streams = [
        [response(batch(0, LEVEL, topic(1)), batch(2, topic(2)))],
        [response(batch(3, topic(3), VersionedRecord(RemoveTopicRecord(topic_id=topic_id(1)), 0)))],
    ]
    later = controller.streams.pop()
    async with serving(controller, port):
        node = Node(tmp_path, port)
        await node.feed.start()
        await eventually(lambda: node.feed.applied_offset == 2)
        assert node.listener.seen == []

        node.feed.begin_publishing()
        assert node.listener.seen == [(["t1", "t2"], [])]

    controller.streams = [later]
    async with serving(controller, port):
        await eventually(lambda: node.feed.applied_offset == 4)
        assert node.listener.seen == [(["t1", "t2"], []), (["t3"], ["t1"])]
        assert node.listener.image is node.feed.image
        assert controller.requests[-1] == request(3, 1, batch(2, topic(2)))
        await node.stop()
    assert node.fatal == []


async def test_what_came_since_the_last_run_is_new_until_it_is_published(tmp_path: Path) -> None:
    controller = ScriptedController()
    controller.streams = [[response(batch(0, LEVEL, topic(1), partition(1)))]]
    async with serving(controller) as port:
        first = Node(tmp_path, port)
        await first.feed.start()
        await eventually(lambda: first.feed.applied_offset == 2)
        assert not first.feed.is_new(key(1)), "nothing is known of former runs"
        first.feed.begin_publishing()
        await first.stop()

        controller.streams = [[response(batch(3, topic(2), partition(2)))]] * 2
        # It is told of the topic, and ends before it acts on that.
        idle = Node(tmp_path, port)
        await idle.feed.start()
        await eventually(lambda: idle.feed.applied_offset == 4)
        await idle.stop()

        again = Node(tmp_path, port)
        await again.feed.start()
        await eventually(lambda: again.feed.applied_offset == 4)
        assert (again.feed.is_new(key(1)), again.feed.is_new(key(2))) == (False, True)
        again.feed.begin_publishing()
        assert not again.feed.is_new(key(2))
        await again.stop()


async def test_the_copy_on_disk_is_the_log_and_is_replayed_at_the_next_start(
    controller: ScriptedController, tmp_path: Path
) -> None:
    data = [batch(0, LEVEL, topic(1)), batch(2, topic(2), epoch=4)]
    controller.streams = [[response(*data)]]
    async with serving(controller) as port:
        async with Node(tmp_path, port) as node:
            await eventually(lambda: node.feed.applied_offset == 2)
        assert request(0, -1) in controller.requests
        path = tmp_path / "metadata" / "__cluster_metadata-0" / "00000000000000000000.log"
        assert path.read_bytes() == b"".join(data)

        async with Node(tmp_path, port) as again:
            assert again.topics() == ["t1", "t2"]
            await eventually(lambda: controller.requests[-1] == request(3, 4, data[-1]))


async def test_batches_that_are_there_already_are_not_taken_twice(tmp_path: Path) -> None:
    first, second = batch(0, LEVEL, topic(1)), batch(2, topic(2))
    controller = ScriptedController()
    controller.streams = [[response(first), response(first, second)]]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.feed.applied_offset == 2)
    log = MetadataLog.open(tmp_path / "metadata")
    assert log.end_offset == 3
    log.close()
    assert node.fatal == []


async def test_a_copy_with_a_damaged_byte_is_cut_there_and_fetched_again(
    controller: ScriptedController, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = [batch(0, LEVEL, topic(1)), batch(2, topic(2)), batch(3, topic(3))]
    controller.streams = [[response(*data)]]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.feed.applied_offset == 3)
    path = tmp_path / "metadata" / "__cluster_metadata-0" / "00000000000000000000.log"
    damaged = bytearray(path.read_bytes())
    damaged[len(data[0]) + 70] ^= 1
    path.write_bytes(damaged)

    controller.streams = [[response(*data[1:])]]
    async with serving(controller, port), Node(tmp_path, port) as again:
        assert again.topics() == ["t1"]
        await eventually(lambda: again.feed.applied_offset == 3)
        assert controller.requests[-1] == request(2, 1, data[0])
    assert path.read_bytes() == b"".join(data)
    assert node.fatal == again.fatal == []
    assert "the copy of the metadata log is damaged; truncating it there" in caplog.text


async def test_after_a_gap_or_damage_the_stream_is_asked_for_again(tmp_path: Path) -> None:
    damaged = bytearray(batch(2, topic(2)))
    damaged[-3] ^= 1
    controller = ScriptedController()
    controller.streams = [
        [response(batch(0, LEVEL, topic(1))), response(batch(5, topic(5)))],
        [response(bytes(damaged))],
        [response(batch(2, topic(2)))],
    ]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.feed.applied_offset == 2)
        assert node.topics() == ["t1", "t2"]
        first = batch(0, LEVEL, topic(1))
        behind = request(2, 1, first)
        assert controller.requests == [request(0, -1), behind, behind]
    assert node.fatal == []


def snapshot_pieces(
    records: Sequence[VersionedRecord], end_offset: int, epoch: int
) -> list[MetadataStreamResponse]:
    data = snapshot_bytes(records, epoch=epoch, timestamp_ms=5_000, created_ms=6_000)
    half = len(data) // 2
    return [
        MetadataStreamResponse(
            high_watermark=Offset(end_offset),
            snapshot=SnapshotPiece(
                end_offset=Offset(end_offset), epoch=LeaderEpoch(epoch), content=part, last=last
            ),
        )
        for part, last in ((data[:half], False), (data[half:], True))
    ]


async def test_a_snapshot_replaces_everything(tmp_path: Path) -> None:
    controller = ScriptedController()
    controller.streams = [
        [
            response(batch(0, LEVEL, topic(1), topic(2))),
            *snapshot_pieces([LEVEL, topic(2), topic(7)], 50, 6),
            response(batch(50, topic(8), epoch=6)),
        ]
    ]
    async with serving(controller) as port:
        async with Node(tmp_path, port) as node:
            await eventually(lambda: node.feed.applied_offset == 50)

            assert node.topics() == ["t2", "t7", "t8"]
            assert node.listener.seen[-2:] == [(["t7"], ["t1"]), (["t8"], [])]
        directory = tmp_path / "metadata" / "__cluster_metadata-0"
        assert latest_snapshot(directory) == (
            directory / "00000000000000000050-0000000006.checkpoint"
        )

        again = Node(tmp_path, port)
        await again.feed.start()
        assert again.topics() == ["t2", "t7", "t8"]
        last = batch(50, topic(8), epoch=6)
        await eventually(lambda: controller.requests[-1] == request(51, 6, last))
        assert image_records(again.feed.image) == image_records(node.feed.image)
        await again.stop()


LOST = "the controller has lost its metadata log: its log differs at offset {} from the one"


@pytest.mark.parametrize("is_publishing", [True, False])
async def test_a_controller_that_lost_its_log_ends_the_broker_and_deletes_nothing(
    controller: ScriptedController, tmp_path: Path, is_publishing: bool, port: int
) -> None:
    data = batch(0, LEVEL, topic(1)), batch(2, topic(2)), batch(3, topic(3))
    controller.streams = [[response(*data)]]
    async with serving(controller, port):
        node = Node(tmp_path, port)
        await node.feed.start()
        if is_publishing:
            node.feed.begin_publishing()
        await eventually(lambda: node.feed.applied_offset == 3)
    # A wiped disk: the log is a new one, and shorter.
    controller.streams = [
        [MetadataStreamResponse(high_watermark=Offset(2), diverging_end_offset=Offset(0))],
        [response(batch(0, LEVEL), high_watermark=2)],
    ]
    async with serving(controller, port):
        await eventually(lambda: node.fatal != [])
        assert len(node.fatal) == 1
        assert node.fatal[0].startswith(LOST.format(0))
        assert "up to offset 3" in node.fatal[0]
        assert str(tmp_path / "metadata") in node.fatal[0]
        assert node.topics() == ["t1", "t2", "t3"]
        assert not any(deleted for _, deleted in node.listener.seen)
        await node.stop()
    log = MetadataLog.open(tmp_path / "metadata")
    # Unpublished metadata was not acted on, and is not in the copy.
    assert log.end_offset == (4 if is_publishing else 0)
    log.close()
    if not is_publishing:
        return

    # It does not help to start again.
    again = Node(tmp_path, port)
    controller.streams = [
        [MetadataStreamResponse(high_watermark=Offset(2), diverging_end_offset=Offset(0))],
    ]
    async with serving(controller, port):
        await again.feed.start()
        await eventually(lambda: again.fatal != [])
        await again.stop()


@pytest.mark.parametrize("has_snapshot", [True, False])
async def test_a_log_whose_epochs_go_back_is_another_one(
    controller: ScriptedController, tmp_path: Path, has_snapshot: bool
) -> None:
    controller.streams = [
        [
            response(batch(0, LEVEL, topic(1), epoch=5)),
            *(snapshot_pieces([LEVEL], 50, 4) if has_snapshot else []),
            response(batch(2, topic(2), epoch=4)),
        ]
    ]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.fatal != [])
        assert node.fatal[0].startswith(LOST.format(50 if has_snapshot else 2))
        assert node.topics() == ["t1"]


def of_epoch(epoch: int, **content: Any) -> MetadataStreamResponse:
    """A message of the leader of an epoch."""
    return MetadataStreamResponse(
        high_watermark=Offset(100),
        leader_epoch=LeaderEpoch(epoch),
        leader_id=BrokerId(100),
        **content,
    )


@pytest.mark.parametrize(
    "content", [{"records": batch(2, topic(2), epoch=4)}, {"diverging_end_offset": Offset(0)}]
)
async def test_what_a_controller_of_a_former_epoch_says_is_dropped(
    controller: ScriptedController, tmp_path: Path, content: dict[str, Any]
) -> None:
    controller.streams = [
        [
            of_epoch(5, records=batch(0, LEVEL, topic(1), epoch=3)),
            of_epoch(4, kraft_version=9, **content),
        ],
        [of_epoch(5, records=batch(2, topic(3), epoch=5), kraft_version=1)],
        [],
    ]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.topics() == ["t1", "t3"])
        assert node.fatal == []
        assert node.feed.kraft_version == 1


@pytest.mark.parametrize(
    "content", [{"records": batch(2, topic(2), epoch=4)}, {"diverging_end_offset": Offset(0)}]
)
async def test_controllers_that_have_forgotten_an_epoch_have_lost_their_log(
    controller: ScriptedController, tmp_path: Path, content: dict[str, Any]
) -> None:
    controller.streams = [
        [of_epoch(5, records=batch(0, LEVEL, topic(1), epoch=5))],
        [of_epoch(4, **content)],
    ]
    async with serving(controller) as port, Node(tmp_path, port, is_forgotten=True) as node:
        await eventually(lambda: node.fatal != [])
        assert "whose last epoch is 5; the controller leads in epoch 4" in node.fatal[0]


async def test_a_log_that_parts_from_this_one_in_a_later_epoch_ends_the_broker(
    controller: ScriptedController, tmp_path: Path
) -> None:
    controller.streams = [
        [of_epoch(5, records=batch(0, LEVEL, topic(1), epoch=5))],
        [of_epoch(6, diverging_end_offset=Offset(0))],
    ]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.fatal != [])
        assert "whose last epoch is 5; the controller leads in epoch 6" in node.fatal[0]


def ends(directory: Path) -> list[int]:
    return [parse_name(path.name)[0] for path in reversed(snapshot_paths(directory))]


async def test_the_copy_gets_snapshots_and_loses_its_history(tmp_path: Path) -> None:
    data = [batch(0, LEVEL), *(batch(n, topic(n)) for n in range(1, 60))]
    controller = ScriptedController()
    controller.streams = [[response(each) for each in data]]
    settings = {"bytes_between_snapshots": 1_000, "retention_bytes": 0, "segment_ms": -1}
    directory = tmp_path / "metadata" / "__cluster_metadata-0"
    async with serving(controller) as port:
        async with Node(tmp_path, port, **settings) as node:
            await eventually(lambda: node.feed.applied_offset == 59)
            await eventually(lambda: ends(directory) and ends(directory)[0] > 30)
        log = MetadataLog.open(tmp_path / "metadata")
        assert 0 < log.start_offset <= ends(directory)[0]
        assert log.end_offset == 60
        log.close()
        assert len(ends(directory)) == 1

        async with Node(tmp_path, port, **settings) as again:
            assert image_records(again.feed.image) == image_records(node.feed.image)
            assert again.feed.applied_offset == 59
            await eventually(lambda: controller.requests[-1] == request(60, 1, data[-1]))
    assert node.fatal == again.fatal == []


async def test_no_snapshot_of_the_copy_is_made_inside_a_transaction(
    controller: ScriptedController, tmp_path: Path, port: int
) -> None:
    begin = VersionedRecord(BeginTransactionRecord(name="t"), 0)
    end = VersionedRecord(EndTransactionRecord(), 0)
    # It begins inside of a batch, where no snapshot may end.
    data = [batch(0, LEVEL, topic(1)), batch(2, topic(4), begin), batch(4, topic(3))]
    controller.streams = [[response(each) for each in data]]
    directory = tmp_path / "metadata" / "__cluster_metadata-0"
    async with serving(controller, port):
        node = Node(tmp_path, port, bytes_between_snapshots=1)
        await node.start()
        log = directory / "00000000000000000000.log"
        await eventually(lambda: log.stat().st_size == sum(map(len, data)))
        assert node.topics() == ["t1", "t4"]
        await quiet([node.log_dirs.metadata_dir])
        assert set(ends(directory)) <= {2}
    controller.streams = [[response(batch(5, end))]]
    async with serving(controller, port):
        await eventually(lambda: ends(directory)[-1:] == [6])
        await node.stop()
    assert node.fatal == []


async def test_a_copy_that_cannot_be_replayed_is_dropped_and_fetched_again(tmp_path: Path) -> None:
    log = MetadataLog.open(tmp_path / "metadata")
    # A topic is removed that never was: valid bytes, but no history of any cluster.
    log.append(batch(0, VersionedRecord(RemoveTopicRecord(topic_id=topic_id(5)), 0)))
    log.close()
    controller = ScriptedController()
    controller.streams = [[response(batch(0, LEVEL, topic(1)))]]
    async with serving(controller) as port, Node(tmp_path, port) as node:
        await eventually(lambda: node.feed.applied_offset == 1)
        assert node.topics() == ["t1"]
        assert controller.requests[0] == request(0, -1)
    assert node.fatal == []


async def test_the_image_does_not_wait_for_the_metadata_disk(tmp_path: Path, port: int) -> None:
    controller = ScriptedController()
    async with serving(controller, port):
        node = Node(tmp_path, port)
        await node.start()
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        busy = node.log_dirs.metadata_dir.run(
            lambda: asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(20)
        )
        await eventually(lambda: controller.requests)
    controller.streams = [[response(batch(0, LEVEL, topic(1)))]]
    async with serving(controller, port):
        await eventually(lambda: node.topics() == ["t1"])
        assert not busy.done()
        gate.set()
        await busy
        await node.stop()
    log = MetadataLog.open(tmp_path / "metadata")
    assert log.end_offset == 2
    log.close()


async def test_a_failed_metadata_directory_ends_the_process(tmp_path: Path, port: int) -> None:
    controller = ScriptedController()
    async with serving(controller, port):
        node = Node(tmp_path, port)
        await node.start()
        await eventually(lambda: controller.requests)
    shutil.rmtree(tmp_path / "metadata")
    controller.streams = [[response(batch(0, LEVEL, topic(1)))]]
    async with serving(controller, port):
        # A new leader epoch is written to a file of its own, which needs the directory.
        await eventually(lambda: node.fatal)
        assert len(node.fatal) == 1
        assert "metadata log directory" in node.fatal[0]
        await node.stop()


async def room_again(disk: CrampedDisk, log_dirs: LogDirs) -> None:
    disk.left = None
    set_forward(NO_ROOM_S)
    await quiet([log_dirs.metadata_dir])


@pytest.mark.parametrize("is_torn", [False, True])
@pytest.mark.parametrize("position", range(10))
async def test_a_metadata_disk_without_room_only_keeps_the_copy_behind(
    controller: ScriptedController, tmp_path: Path, port: int, position: int, is_torn: bool
) -> None:
    disk = CrampedDisk()
    disk.is_torn = disk.cuts = is_torn
    data = [
        batch(0, LEVEL, topic(1)),
        batch(2, topic(2)),
        batch(3, topic(3), epoch=4),
        batch(4, topic(4), epoch=5),
    ]
    async with serving(controller, port):
        # Each batch gets a segment of its own.
        node = Node(tmp_path, port, disk=disk, segment_bytes=1)
        await node.start()
        await eventually(lambda: controller.requests)
    disk.left = position
    controller.streams = [[response(data[0]), response(*data[1:3]), response(data[3])]]
    async with serving(controller, port):
        await eventually(lambda: node.feed.applied_offset == 4)
        await eventually(lambda: disk.refused)
        assert node.topics() == ["t1", "t2", "t3", "t4"], "nobody waits for the disk"

        await room_again(disk, node.log_dirs)
        await quiet([node.log_dirs.metadata_dir])
        await node.stop()
        assert node.fatal == []
        assert node.log_dirs.metadata_dir.cause is None

        async with Node(tmp_path, port) as again:
            assert again.topics() == ["t1", "t2", "t3", "t4"]
    log = MetadataLog.open(tmp_path / "metadata")
    assert (log.start_offset, log.end_offset) == (0, 5)
    log.close()


@pytest.mark.parametrize("position", range(4))
async def test_a_snapshot_without_room_is_asked_for_again(
    controller: ScriptedController, tmp_path: Path, port: int, position: int
) -> None:
    disk = CrampedDisk()
    disk.is_torn = disk.cuts = True
    async with serving(controller, port):
        node = Node(tmp_path, port, disk=disk)
        await node.start()
        await eventually(lambda: controller.requests)
    disk.left = position
    pieces = snapshot_pieces([LEVEL, topic(2), topic(7)], 50, 6)
    controller.streams = [pieces, [*pieces, response(batch(50, topic(8), epoch=6))]]
    async with serving(controller, port):
        await eventually(lambda: disk.refused)
        await room_again(disk, node.log_dirs)
        await eventually(lambda: node.feed.applied_offset == 50)
        await node.stop()
        assert node.topics() == ["t2", "t7", "t8"]
        assert node.fatal == []
    log = MetadataLog.open(tmp_path / "metadata")
    assert (log.start_offset, log.end_offset) == (50, 51)
    log.close()
