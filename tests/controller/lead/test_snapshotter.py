"""Snapshots of a controller: restarts stay cheap, history goes, and whoever is behind is helped."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from controller.metadata_dir import open_metadata_dir
from jbodlab.controller_api import requests
from jbodlab.controller_api.requests import MetadataStreamRequest
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.snapshots import decode_snapshot, read_snapshot, snapshot_paths
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, TopicId
from tests.builders import CLUSTER_ID, brokers
from tests.controller.formatted import config_of
from tests.controller.lead.snapshots import BETWEEN, SETTINGS, Snapshots, snapshotting
from tests.controller.process import Process
from tests.controller.shell import Shell, shell
from tests.snapshot_files import image_records
from tests.waiting import turns

SMALL = {
    **SETTINGS,
    # Every batch gets a segment of its own, and nothing is kept that need not be.
    "metadata_log_segment_ms": "-1",
    "metadata_max_retention_bytes": "0",
}


def request(offset: int, epoch: int = -1) -> MetadataStreamRequest:
    return MetadataStreamRequest(
        broker_id=BrokerId(1),
        cluster_id=CLUSTER_ID,
        fetch_offset=Offset(offset),
        last_fetched_epoch=LeaderEpoch(epoch),
    )


def same(one: MetadataImage, two: MetadataImage) -> bool:
    return image_records(one) == image_records(two)


async def test_a_restart_gives_the_same_image_and_replays_only_what_is_behind_the_snapshot(
    directory: Path,
) -> None:
    async def life(changes: int) -> tuple[MetadataImage, int, int]:
        async with snapshotting(directory, SETTINGS) as it:
            for number in range(changes):
                await it.change(number)
            await it.settle()
            await it.change(changes)
            log = it.shell.log
            behind = log.end_offset - it.ends[-1]
            assert log.size_bytes > changes * 100
            return it.image, behind, log.end_offset

    for changes in (100, 400):
        before, _, end_offset = await life(changes)
        opened = open_metadata_dir(config_of(directory, **SETTINGS))
        opened.log.close()

        # The same below, whatever the length of the history.
        assert 0 < opened.replayed_bytes <= 2 * BETWEEN
        assert opened.log.start_offset == 0
        assert opened.loader.image.topics == before.topics
        assert opened.loader.image.features == before.features
        assert opened.loader.next_offset == end_offset
        opened.lock.close()


async def test_a_snapshot_that_is_due_at_the_start_waits_for_the_quorum(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    it = Shell(directory, **SETTINGS)
    it.opened = replace(it.opened, replayed_bytes=2 * BETWEEN)
    snapshots = Snapshots(it, directory, SETTINGS)
    await turns()
    assert not it.quorum.has_begun
    assert "cannot write" not in caplog.text

    await it.lead()
    await snapshots.until(lambda: snapshots.ends)
    await snapshots.stop()
    await it.stop()


async def test_a_snapshot_is_the_state_at_its_end(directory: Path) -> None:
    async with snapshotting(directory, SETTINGS) as it:
        images = {}
        number = 0
        while len(it.ends) < 3:
            await it.change(number)
            images[it.image.offset + 1] = it.image
            number += 1
            await asyncio.sleep(0)
        for path in snapshot_paths(it.directory):
            snapshot = read_snapshot(path)
            assert snapshot.epoch == 1
            assert snapshot.timestamp_ms == images[snapshot.end_offset].timestamp_ms
            assert list(snapshot.records) == image_records(images[snapshot.end_offset])


async def test_a_damaged_newest_snapshot_is_passed_over(directory: Path) -> None:
    async with snapshotting(directory, SETTINGS) as it:
        await it.settle()
        await it.settle()
        before = it.image
    newest = snapshot_paths(directory / "__cluster_metadata-0")[0]
    content = bytearray(newest.read_bytes())
    content[100] ^= 1
    newest.chmod(0o644)
    newest.write_bytes(content)

    async with shell(directory, **SETTINGS) as it:
        assert it.controller.state.image.topics == before.topics
    assert not newest.exists()
    assert newest.with_name(newest.name + ".damaged").exists()


async def test_history_goes_and_a_broker_from_before_gets_the_snapshot(directory: Path) -> None:
    for _ in range(2):
        # The second life has an epoch of its own; the log of the first is removed.
        async with snapshotting(directory, SMALL) as it:
            await it.settle()
            await it.until(lambda it=it: it.shell.log.start_offset == it.ends[-1])
            assert len(it.ends) == 1
    async with snapshotting(directory, SMALL) as it:
        # Its epoch is forgotten, but its log is not cut for that: all of it is still true.
        for offset, epoch in ((3, 1), (0, -1), (it.ends[0] - 1, 2)):
            subscription = it.shell.stream.subscribe(request(offset, epoch))
            piece = (await anext(subscription)).snapshot
            assert piece is not None
            assert piece.last
            loader = MetadataLoader()
            _, records = decode_snapshot(piece.content)
            loader.load_snapshot(records, piece.end_offset, piece.epoch, 0)
            while loader.next_offset < it.shell.log.end_offset:
                for batch in read_batches((await anext(subscription)).records):
                    loader.load(batch)
            assert same(loader.image, it.image)


async def test_a_stream_that_history_overtakes_goes_on_with_the_snapshot(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.lead.metadata_stream.RECENT_BYTES_MAX", 0)

    async with snapshotting(directory, SMALL) as it:
        subscription = it.shell.stream.subscribe(request(0))
        first = await anext(subscription)
        assert next(read_batches(first.records)).base_offset == 0

        await it.settle()
        await it.until(lambda: it.shell.log.start_offset == it.ends[-1])

        piece = (await anext(subscription)).snapshot
        assert piece is not None
        assert piece.end_offset == it.ends[-1]


async def test_a_quiet_log_gets_no_further_snapshots(directory: Path) -> None:
    settings = {
        "metadata_log_max_snapshot_interval_ms": "20",
        "metadata_max_idle_interval_ms": "0",
    }

    async with snapshotting(directory, settings) as it:
        await it.change(1)
        await it.until(lambda: it.ends)
        await it.until(lambda: it.ends[-1] == it.shell.log.end_offset)
        ends = it.ends
        for _ in range(3):
            await turns()
            await it.shell.thread.run(lambda: None)
        assert it.ends == ends

        await it.change(2)
        await it.until(lambda: it.ends[-1] == it.shell.log.end_offset)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path, **SMALL) as it:
        yield it


@pytest.mark.process
def test_a_controller_that_is_killed_again_and_again_knows_everything(process: Process) -> None:
    created: dict[str, TopicId] = {}
    replayed = []
    for life in range(4):
        process.start()
        if life == 0:
            epoch = process.register(1, "A1,A2")
            process.heartbeat(1, epoch)
        replayed.append(int(re.findall(r"replayed_records=(\d+)", process.stderr())[-1]))
        for number in range(30):
            name = f"topic-{life}-{number}"
            topic = requests.NewTopic(name=name, assignments=((0, brokers(1)),))
            process.heartbeat(1, epoch)
            answer = process.ask("CreateTopics", requests.CreateTopicsRequest(topics=(topic,)))
            assert answer.topics[0].error_code == ErrorCode.NONE
            created[name] = answer.topics[0].topic_id
        # Wherever it may be in writing a snapshot or removing what it makes superfluous.
        process.stop(signal.SIGKILL)
        image = process.image()
        assert {topic.name: topic.topic_id for topic in image.topics.by_id.values()} == created
        assert image.cluster.brokers[BrokerId(1)].epoch == epoch
        assert not image.cluster.brokers[BrokerId(1)].fenced

    names = sorted(path.name for path in (process.metadata_dir / "__cluster_metadata-0").iterdir())
    assert any(name.endswith(".checkpoint") for name in names)
    assert f"{0:020d}.log" not in names
    # A record is more than 30 bytes, so there are not many in what may be behind a snapshot;
    # all topics together have 240 of them.
    assert max(replayed) < 2 * BETWEEN // 30
