"""Several rounds of the active controller are written at once; the test releases the commits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from controller.decide.state import ControllerResult, ControllerState
from controller.lead import active_controller
from controller.lead.active_controller import ActiveController, OperationCounts
from controller.lead.committed_state import CommittedState
from controller.limits import ROUNDS_IN_FLIGHT_MAX
from controller.quorum.replicated_log import NotLeaderError
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError, LogDirError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset
from tests.builders import PureController
from tests.controller.scripted_log import ScriptedLog
from tests.waiting import turns


def write(count: int = 1) -> Callable[..., ControllerResult[int]]:
    """Decide to write some records; the answer is the offset of the first."""

    def decide(state: ControllerState, now_ms: int) -> ControllerResult[int]:
        records = (VersionedRecord(NoOpRecord(), 0),) * count
        return ControllerResult(response=state.next_offset, records=records)

    return decide


def read(state: ControllerState, now_ms: int) -> ControllerResult[int]:
    return ControllerResult(response=state.next_offset)


def refuse(state: ControllerState, now_ms: int) -> ControllerResult[int]:
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"at {state.next_offset}")


class Rounds:
    """An active controller on a log of the test."""

    def __init__(self) -> None:
        self.log = ScriptedLog(lambda: self)
        self.log.epoch = LeaderEpoch(1)
        self.committed = CommittedState(MetadataLoader())
        self.log.add_listener(self.committed)
        image = self.committed.image
        state = replace(PureController().state, image=image, next_offset=self.committed.end_offset)
        self.controller = ActiveController(
            log=self.log,
            state=state,
            epoch=LeaderEpoch(1),
            committed=self.committed,
            counts=OperationCounts(),
            now_ms=lambda: 0,
            wall_ms=lambda: 0,
        )
        self.running = asyncio.create_task(self.controller.run())
        self.answers: list[object] = []
        self.tasks: list[asyncio.Task[None]] = []

    def on_leader(self, epoch: LeaderEpoch) -> None:
        raise AssertionError("only one term")

    def on_controls(self, end_offset: Offset) -> None:
        pass

    def on_follower(self, epoch: LeaderEpoch, leader: object) -> None:
        self.controller.resign()

    async def submit(self, decide: Any) -> None:
        """Submit an operation, and let it run as far as it can."""

        async def run() -> None:
            try:
                self.answers.append(await self.controller.submit(decide))
            except (KafkaError, NotLeaderError) as error:
                self.answers.append(error)

        self.tasks.append(asyncio.create_task(run()))
        await turns()

    async def commit(self) -> None:
        self.log.commit()
        await turns()

    async def close(self) -> None:
        self.running.cancel()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(self.running, *self.tasks, return_exceptions=True)


async def test_no_decision_waits_for_a_write_and_each_sees_those_before() -> None:
    it = Rounds()
    for _ in range(3):
        await it.submit(write(2))

    assert len(it.log.waiting) == 3
    assert it.controller.state.next_offset == 6
    assert it.answers == []
    assert it.committed.end_offset == 0
    await it.commit()
    assert (it.answers, it.committed.end_offset, it.committed.image.offset) == ([0], 2, 1)
    await it.commit()
    await it.commit()
    assert (it.answers, it.committed.end_offset) == ([0, 2, 4], 6)
    await it.close()


async def test_refusals_and_reads_wait_for_what_they_saw() -> None:
    it = Rounds()
    await it.submit(refuse)
    await it.submit(read)
    assert [str(each) for each in it.answers[:1]] == ["at 0"]
    assert it.answers[1:] == [0]
    it.answers.clear()
    await it.submit(write())
    await it.submit(refuse)
    await it.submit(write())
    await it.submit(read)
    assert it.answers == []
    await it.commit()
    assert [str(each) for each in it.answers] == ["0", "at 1"]
    await it.commit()
    assert it.answers[2:] == [1, 2]
    await it.close()


async def test_rounds_beyond_the_bound_wait_and_share_the_next_one() -> None:
    it = Rounds()
    for _ in range(ROUNDS_IN_FLIGHT_MAX + 3):
        await it.submit(write())

    assert len(it.log.waiting) == ROUNDS_IN_FLIGHT_MAX
    await it.commit()
    assert len(it.log.waiting) == ROUNDS_IN_FLIGHT_MAX
    assert len(it.log.waiting[-1][1].batches) == 1
    assert it.log.waiting[-1][1].end_offset == ROUNDS_IN_FLIGHT_MAX + 3
    while it.log.waiting:
        await it.commit()
    assert it.answers == list(range(ROUNDS_IN_FLIGHT_MAX + 3))
    await it.close()


async def test_operations_and_bytes_of_the_rounds_in_flight_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A single round may pass a bound; the next one waits until it is committed."""
    for bound, records in (("OPERATIONS_IN_FLIGHT_MAX", 1), ("BYTES_IN_FLIGHT_MAX", 100)):
        it = Rounds()
        with monkeypatch.context() as patch:
            patch.setattr(active_controller, bound, 3)
            tasks = [it.submit(write(records)) for _ in range(4)]
            await asyncio.gather(*tasks)
            await it.submit(write())

            assert len(it.log.waiting) == 1
            assert it.log.waiting[0][1].end_offset == 4 * records
            await it.commit()
            assert it.answers == [n * records for n in range(4)]
            assert len(it.log.waiting) == 1
            await it.commit()
            assert it.answers[4:] == [4 * records]
        await it.close()


async def test_a_round_that_cannot_be_appended_ends_the_controller() -> None:
    it = Rounds()
    it.log.epoch = LeaderEpoch(2)
    await it.submit(write())

    with pytest.raises(NotLeaderError):
        await it.running
    assert (it.answers, it.committed.end_offset) == ([], 0)
    await it.close()


@pytest.mark.parametrize("pending", [0, 1, 3, ROUNDS_IN_FLIGHT_MAX])
async def test_a_resignation_goes_back_to_what_is_committed_and_tells_all_who_wait(
    pending: int,
) -> None:
    it = Rounds()
    await it.submit(write())
    await it.commit()
    for _ in range(pending + 2 * (pending == ROUNDS_IN_FLIGHT_MAX)):
        await it.submit(write())
    waiting = len(it.tasks) - 1
    it.log.resign()
    await turns()

    assert it.answers[0] == 0
    assert [type(each) for each in it.answers[1:]] == [NotLeaderError] * waiting
    # The next leader may have the rounds that were under way, and nothing of what was not begun.
    assert [each.is_outcome_unknown for each in it.answers[1:]].count(True) == pending
    assert it.controller.state.image is it.committed.image
    assert it.committed.end_offset == it.controller.state.next_offset == 1
    with pytest.raises(NotLeaderError):
        await it.running
    await it.close()


async def test_an_append_that_fails_ends_the_controller_and_answers_nobody() -> None:
    it = Rounds()
    for _ in range(3):
        await it.submit(write())
    await it.commit()
    for future, _ in it.log.waiting:
        future.set_exception(LogDirError(None, None, "broken"))  # type: ignore[arg-type]
    await turns()

    with pytest.raises(LogDirError):
        await it.running
    assert it.answers == [0]
    assert it.committed.end_offset == 1
    await it.close()


@pytest.mark.parametrize("decide", [read, refuse])
async def test_an_answer_without_records_waits_until_it_is_sure_that_this_node_leads(
    decide: Callable[..., Any],
) -> None:
    it = Rounds()
    it.log.confirmation = asyncio.get_running_loop().create_future()

    await it.submit(decide)
    assert not it.answers
    it.log.confirmation.set_result(None)
    await turns(3)

    assert len(it.answers) == 1


async def test_an_answer_without_records_is_dropped_if_another_node_leads() -> None:
    it = Rounds()
    it.log.confirmation = asyncio.get_running_loop().create_future()
    await it.submit(read)

    it.log.follow(2)
    it.log.confirmation.set_exception(NotLeaderError())
    await turns(3)

    assert [type(each) for each in it.answers] == [NotLeaderError]
    with pytest.raises(NotLeaderError):
        await it.running
