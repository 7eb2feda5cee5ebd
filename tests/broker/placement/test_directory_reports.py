"""Reports that a broker tells of the directories of its replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.replica.replica_state import Offline
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from tests.broker.placement.reported import Reported, stories
from tests.broker.replicas import broker, feature, partition_record, topic, until
from tests.broker.stage import tp
from tests.waiting import set_forward, turns

STORIES = stories("directory_reports")


@pytest.fixture
async def reported(tmp_path: Path) -> AsyncIterator[Reported]:
    async with Reported(tmp_path) as made:
        yield made


@pytest.mark.parametrize("title", STORIES)
async def test_story(reported: Reported, title: str) -> None:
    await STORIES[title].check(reported)


async def test_broker_waits_to_be_unfenced_until_all_its_directories_are_known(
    caplog: pytest.LogCaptureFixture, reported: Reported
) -> None:
    reported.publish(*(partition_record((1,), (UNASSIGNED,), index=index) for index in range(3)))
    waiting = asyncio.create_task(reported.reports.all_known())
    await until(lambda: len(reported.sender.waiting) == 3)
    await turns()
    set_forward(1)
    await until(lambda: "the broker stays fenced" in caplog.text)

    assert not waiting.done()
    (said,) = (each.message for each in caplog.records if "stays fenced" in each.message)
    assert "does not know the directories of 3 replicas" in said
    assert "orders-0" in said

    reported.accept()
    await waiting


async def test_broker_whose_directories_are_known_waits_for_nothing(reported: Reported) -> None:
    reported.publish(partition_record((1,), (reported.host.directory(1),)))
    await reported.host.online()
    await asyncio.wait_for(reported.reports.all_known(), 0.5)
    assert reported.sender.reports == []


async def test_replica_removed_by_hand_is_found_and_lost_alone(
    tmp_path: Path, reported: Reported
) -> None:
    directory = reported.host.directory(0)
    reported.publish(*(partition_record((1,), (directory,), index=index) for index in range(2)))
    lost = await reported.host.online()
    healthy = await reported.host.online(tp(1))
    # At once: what is removed file by file may get a new one meanwhile.
    (reported.host.dirs[0].path / "orders-0").rename(tmp_path / "removed")

    await reported.reports.find_lost_replicas()

    assert isinstance(lost.state, Offline)
    assert healthy.is_online
    assert reported.sender.reports == [(0, LOST)]
    assert len(reported.host.log_dirs.online()) == 2


async def test_without_directories_in_the_metadata_nothing_is_reported(reported: Reported) -> None:
    reported.apply(feature(16), broker(1), topic(), partition_record((1,), (MIGRATING,)))
    await reported.host.online()
    reported.reports.review()
    await asyncio.wait_for(reported.reports.all_known(), 0.5)
    assert reported.sender.reports == []
