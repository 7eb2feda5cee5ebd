from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from controller.decide.brokers.brokers import heartbeat
from controller.decide.brokers.registration import register_broker
from controller.decide.heartbeats import Heartbeats
from controller.decide.state import ControllerResult, ControllerState
from controller.lead import periodic
from controller.server import start_periodic
from jbodlab.controller_api.requests import BrokerHeartbeatRequest
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import PartitionRecord, TopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId
from tests.builders import PureController, brokers, directories, named_uuid
from tests.controller.formatted import config_of, format_dir
from tests.controller.shell import Shell, shell
from tests.waiting import AdjustableLoop, called, runner_on, set_forward, turns

runner = runner_on(AdjustableLoop)


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


async def test_sessions_end_one_after_the_other(tmp_path: Path) -> None:
    async with shell(format_dir(tmp_path / "m"), broker_session_timeout_ms="50") as it:
        await add_broker(it, 1, "A1")
        await add_broker(it, 2, "B1")

        await until(
            lambda: fenced(it, 1) and fenced(it, 2),
            periodic.fence_stale_brokers(it.controller, 50, 2_000),
        )


@pytest.mark.parametrize("ahead_ms", [200, 100_000])
async def test_after_standing_still_heartbeats_arrive_before_anybody_is_fenced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, ahead_ms: int
) -> None:
    async with shell(format_dir(tmp_path / "m"), broker_session_timeout_ms="50") as it:
        await add_broker(it, 1, "A1")
        timer = periodic.fence_stale_brokers(it.controller, 50, 60_000)
        waiting = asyncio.create_task(timer)
        await asyncio.sleep(0)
        # When it wakes the clock is ahead, as in a process that was stopped and goes on. How
        # long that was is not known: it may have begun long before the end of a session.
        now_ms = it.controller.now_ms
        monkeypatch.setattr(it.controller, "now_ms", lambda: now_ms() + ahead_ms)
        while "the controller process was paused" not in caplog.text:
            assert not waiting.done()
            await asyncio.sleep(0.005)
        await turns()
        assert not fenced(it, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_run_that_had_more_to_do_is_repeated_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    pauses: list[float] = []

    def decide(state: ControllerState, now_ms: int) -> ControllerResult[bool]:
        runs.append(now_ms)
        return ControllerResult(response=len(runs) < 4)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await turns(1)

    async with shell(format_dir(tmp_path / "m")) as it:
        monkeypatch.setattr(periodic, "asyncio", SimpleNamespace(sleep=sleep))
        await until(lambda: len(pauses) >= 5, periodic._repeat(it.controller, decide, 30_000))

    assert pauses[:5] == [30, 0.01, 0.01, 0.01, 30]


async def test_no_ops_fill_silence_only(it: Shell) -> None:
    start = it.controller.state.next_offset
    await until(
        lambda: it.controller.state.next_offset >= start + 3,
        periodic.write_no_ops(it.controller, 10),
    )
    silent = it.controller.state.next_offset
    task = asyncio.create_task(periodic.write_no_ops(it.controller, 60_000))
    await turns()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert it.controller.state.next_offset == silent


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), ZeroDivisionError()])
async def test_no_task_ends_by_what_one_run_raises(
    directory: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr("jbodlab.runtime.supervised.RESTART_S", 0.001)
    monkeypatch.setattr("controller.lead.periodic.PERIODIC_FAILURE_PAUSE_MS", 1)
    settings = {
        "broker_session_timeout_ms": "50",
        "metadata_max_idle_interval_ms": "1",
        "leader_imbalance_check_interval_seconds": "1",
        "unclean_leader_election_interval_ms": "1",
    }
    asked: Counter[object] = Counter()

    async with shell(directory, **settings) as it:
        await add_broker(it, 1, "A1")
        submit = it.controller.submit

        async def fail_first(decide: Any, *, is_own: bool) -> Any:
            assert is_own
            asked[decide] += 1
            if asked[decide] == 1:
                raise error
            return await submit(decide, is_own=is_own)

        monkeypatch.setattr(it.controller, "submit", fail_first)
        tasks = start_periodic(config_of(directory, **settings), it.controller)
        while len(asked) < 5 or min(asked.values()) < 2:
            assert not any(task.done() for task in tasks)
            set_forward(0.1)
            await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_new_controller_elects_what_the_one_before_was_killed_in_the_middle_of(
    it: Shell,
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

    await add_broker(it, 1, "A1")
    await it.controller.submit(lambda state, now_ms: cut)

    def leader() -> int:
        return it.controller.state.image.topics.by_id[topic_id].partitions[0].leader

    assert leader() == -1
    await until(lambda: leader() == 1, periodic.elect_uncleanly(it.controller, 60_000))


@pytest.mark.parametrize("task", [periodic.elect_uncleanly, periodic.balance_leaders])
async def test_a_new_controller_elects_nobody_before_it_knows_the_brokers(
    it: Shell, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_broker(it, 1, "A1")
    state = it.controller.state
    it.controller.state = replace(
        state,
        heartbeats=Heartbeats.at_activation(
            state.image.cluster.brokers, 9_000, it.controller.now_ms(), interval_ms=60_000
        ),
    )
    asked: list[object] = []

    async def submit(decide: object, *, is_own: bool) -> bool:
        asked.append(decide)
        return False

    monkeypatch.setattr(it.controller, "submit", submit)
    running = asyncio.create_task(task(it.controller, 1))
    try:
        await asyncio.sleep(0.05)
        assert asked == []
        contact = it.controller.state.heartbeats.contacts[BrokerId(1)]
        it.controller.state = replace(
            it.controller.state,
            heartbeats=it.controller.state.heartbeats.with_contact(
                BrokerId(1), replace(contact, offline_log_dirs=frozenset())
            ),
        )
        await called(asked)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
