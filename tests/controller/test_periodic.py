from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller import periodic
from controller.brokers import heartbeat
from controller.registration import register_broker
from controller.state import ControllerResult, ControllerState
from jbodlab.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from jbodlab.records.frame import VersionedRecord
from jbodlab.records.topic_records import PartitionRecord, TopicRecord
from jbodlab.requests import BrokerHeartbeatRequest
from tests.builders import PureController, brokers, directories, named_uuid
from tests.controller.formatted import format_dir
from tests.controller.shell import Shell, shell


async def add_broker(it: Shell, broker: int, dirs: str) -> None:
    registration = PureController().registration(broker, dirs)
    answer = await it.controller.submit(partial(register_broker, registration))
    request = BrokerHeartbeatRequest(
        broker_id=BrokerId(broker),
        broker_epoch=answer.broker_epoch,
        current_metadata_offset=Offset(1 << 40),
    )
    assert not (await it.controller.submit(partial(heartbeat, request))).is_fenced


def fenced(it: Shell, broker: int) -> bool:
    return it.controller.state.image.cluster.brokers[BrokerId(broker)].fenced


async def until(condition: Any, work: Coroutine[Any, Any, None]) -> None:
    """Let some work go on until a condition holds; the shell has the deadline."""
    task = asyncio.create_task(work)
    try:
        while not condition():
            assert not task.done()
            await asyncio.sleep(0.005)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_sessions_end_one_after_the_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shell(format_dir(tmp_path / "m"), broker_session_timeout_ms="50") as it:
            await add_broker(it, 1, "A1")
            await add_broker(it, 2, "B1")

            await until(
                lambda: fenced(it, 1) and fenced(it, 2),
                periodic.fence_stale_brokers(it.controller, 50, 2_000),
            )

    asyncio.run(scenario())


def test_after_standing_still_heartbeats_arrive_before_anybody_is_fenced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with shell(format_dir(tmp_path / "m"), broker_session_timeout_ms="50") as it:
            await add_broker(it, 1, "A1")
            timer = asyncio.create_task(periodic.fence_stale_brokers(it.controller, 50, 100))
            await asyncio.sleep(0)
            expired = it.controller.state.heartbeats.next_expiry_ms(
                it.controller.state.image.cluster
            )
            assert expired is not None
            while periodic.now_ms() <= expired + 101:
                # The loop stands still: this is what a stopped process looks like from inside.
                pass
            await asyncio.sleep(0.03)
            assert not fenced(it, 1)
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)

    asyncio.run(scenario())
    assert "controller stood still" in caplog.text


def test_a_run_that_had_more_to_do_is_repeated_soon(tmp_path: Path) -> None:
    runs: list[int] = []

    def decide(state: ControllerState, now_ms: int) -> ControllerResult[bool]:
        runs.append(now_ms)
        return ControllerResult(response=len(runs) < 4)

    async def scenario() -> None:
        async with shell(format_dir(tmp_path / "m")) as it:
            await until(lambda: len(runs) == 4, periodic._repeat(it.controller, decide, 30))

    asyncio.run(scenario())

    # Three pauses of 10 ms behind the first of 30.
    assert runs[3] - runs[0] >= 27


def test_no_ops_fill_silence_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shell(format_dir(tmp_path / "m")) as it:
            start = it.controller.state.next_offset
            await until(
                lambda: it.controller.state.next_offset >= start + 3,
                periodic.write_no_ops(it.controller, 10),
            )
            silent = it.controller.state.next_offset
            task = asyncio.create_task(periodic.write_no_ops(it.controller, 60_000))
            await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

            assert it.controller.state.next_offset == silent

    asyncio.run(scenario())


def test_a_new_controller_elects_what_the_one_before_was_killed_in_the_middle_of(
    tmp_path: Path,
) -> None:
    topic_id = TopicId(named_uuid("foo"))
    cut = ControllerResult(
        response=None,
        records=(
            VersionedRecord(TopicRecord(name="foo", topic_id=topic_id), 0),
            VersionedRecord(
                PartitionRecord(
                    partition_id=0,
                    topic_id=topic_id,
                    replicas=brokers(1),
                    isr=brokers(1),
                    leader=BrokerId(-1),
                    leader_epoch=LeaderEpoch(0),
                    partition_epoch=PartitionEpoch(0),
                    directories=directories("A1"),
                ),
                1,
            ),
        ),
    )

    async def scenario() -> None:
        async with shell(format_dir(tmp_path / "m")) as it:
            await add_broker(it, 1, "A1")
            await it.controller.submit(lambda state, now_ms: cut)

            def leader() -> int:
                return it.controller.state.image.topics.by_id[topic_id].partitions[0].leader

            assert leader() == -1
            await until(lambda: leader() == 1, periodic.elect_uncleanly(it.controller, 60_000))

    asyncio.run(scenario())
