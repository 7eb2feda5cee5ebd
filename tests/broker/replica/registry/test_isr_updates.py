from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from broker.replica.partition.partition import Partition
from broker.replica.registry.isr_updates import IsrUpdates
from jbodlab.controller_api.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChangeResult,
    IsrMember,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from tests.broker.replicas import TOPIC_ID, broker, until
from tests.broker.stage import D3, THREE, Stage
from tests.waiting import turns

Answer = AlterPartitionResponse | Exception


class Controller:
    """Answers as it was told; keeps the requests."""

    updates: IsrUpdates

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.requests: list[AlterPartitionRequest] = []
        self.before_answer: Callable[[], None] = lambda: None

    async def send(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        self.requests.append(request)
        await asyncio.sleep(0)
        self.before_answer()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def accepted(*isr: int, partition_epoch: int = 1) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        results=(
            IsrChangeResult(
                topic_id=TOPIC_ID,
                partition=0,
                leader=BrokerId(1),
                leader_epoch=LeaderEpoch(0),
                isr=tuple(map(BrokerId, isr)),
                partition_epoch=PartitionEpoch(partition_epoch),
            ),
        )
    )


def refused(code: ErrorCode) -> AlterPartitionResponse:
    result = IsrChangeResult(topic_id=TOPIC_ID, partition=0, error_code=code)
    return AlterPartitionResponse(results=(result,))


@pytest.fixture
def controller(options: dict[str, Sequence[Answer]]) -> Controller:
    return Controller(**options)


@pytest.fixture
async def partition(tmp_path: Path, controller: Controller) -> AsyncIterator[Partition]:
    stage = Stage(tmp_path)
    updates = IsrUpdates(
        BrokerId(1),
        send=controller.send,
        broker_epoch=lambda: BrokerEpoch(7),
        registered_epoch=lambda broker_id: {2: 7, 3: 8}.get(broker_id),
    )
    controller.updates = updates
    stage.host.proposals.propose_isr = updates.propose_isr  # type: ignore[method-assign]
    stage.describe((1, 2, 3), broker(3, D3, epoch=8), isr=(1, 2))
    partition = await stage.host.online()
    partition.in_sync.follower_fetched(THREE, 0, 8)
    try:
        yield partition
    finally:
        await updates.close()
        await stage.stop()


def isr(partition: Partition) -> tuple[int, ...]:
    return partition.leader.isr


@pytest.mark.stage(answers=[accepted(1, 2, 3)])
async def test_proposal_names_epochs_and_its_answer_is_adopted(
    partition: Partition, controller: Controller
) -> None:
    await until(lambda: isr(partition) == (1, 2, 3))

    (request,) = controller.requests
    (change,) = request.changes
    assert (change.leader_epoch, change.partition_epoch) == (0, 0)
    assert change.new_isr == (
        IsrMember(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(7)),
        IsrMember(broker_id=BrokerId(2), broker_epoch=BrokerEpoch(7)),
        IsrMember(broker_id=BrokerId(3), broker_epoch=BrokerEpoch(8)),
    )


@pytest.mark.stage(
    answers=[
        ControllerUnavailableError("no answer"),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        refused(ErrorCode.NOT_CONTROLLER),
        accepted(1, 2, 3),
    ]
)
async def test_request_that_fails_as_a_whole_is_sent_again(
    partition: Partition, controller: Controller
) -> None:
    await until(lambda: isr(partition) == (1, 2, 3))

    assert len(controller.requests) == 4


@pytest.mark.stage(answers=[refused(ErrorCode.INELIGIBLE_REPLICA), accepted(1, 2, 3)])
async def test_refused_proposal_may_be_made_again_by_the_next_fetch(partition: Partition) -> None:
    await until(lambda: partition.leader is not None and partition.leader.proposed_isr is None)

    partition.in_sync.follower_fetched(BrokerId(3), 0, 8)

    await until(lambda: isr(partition) == (1, 2, 3))


@pytest.mark.stage(answers=[*[refused(ErrorCode.INELIGIBLE_REPLICA)] * 2, accepted(1, 2, 3)])
async def test_proposal_that_comes_as_the_last_answer_is_taken_in_is_sent_too(
    partition: Partition, controller: Controller
) -> None:
    await until(lambda: partition.leader is not None and partition.leader.proposed_isr is None)
    fetched = partial(partition.in_sync.follower_fetched, BrokerId(3), 0, 8)
    # Called in the turn behind that in which the task of the proposals returns.
    controller.before_answer = partial(asyncio.get_running_loop().call_soon, fetched)
    fetched()

    await until(lambda: isr(partition) == (1, 2, 3))


@pytest.mark.stage(answers=[refused(ErrorCode.INVALID_UPDATE_VERSION)])
async def test_outdated_proposal_stands_until_the_metadata_comes(
    partition: Partition, controller: Controller
) -> None:
    await until(lambda: not controller.answers)
    await turns()

    assert partition.leader.proposed_isr == (1, 2, 3)
    assert len(controller.requests) == 1


@pytest.mark.stage(answers=[ZeroDivisionError("broken"), accepted(1, 2, 3)])
async def test_a_broken_answer_leaves_no_proposal_unsent(
    partition: Partition, controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    await until(lambda: isr(partition) == (1, 2, 3))

    assert len(controller.requests) == 2
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.stage(answers=[accepted(1, 2, 3), accepted(1, 2, partition_epoch=2)])
async def test_a_proposal_that_cannot_be_made_stops_no_other(
    partition: Partition, controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    await until(lambda: isr(partition) == (1, 2, 3))
    # Nobody knows the epoch of such a member.
    leader = partition.leader
    leader.proposed_isr = (BrokerId(1), BrokerId(2), BrokerId(77))
    controller.updates.propose_isr(partition, (BrokerId(1), BrokerId(2), BrokerId(77)))
    await until(lambda: leader.proposed_isr is None)
    assert "KeyError" in caplog.text
    partition.in_sync.set_joinable({BrokerId(2): 7})
    await until(lambda: isr(partition) == (1, 2))


@pytest.mark.stage(answers=[accepted(1, 2, 3), accepted(1, 2, 3, partition_epoch=2)])
async def test_members_are_proposed_by_id_whatever_order_they_came_in(
    partition: Partition, controller: Controller
) -> None:
    await until(lambda: isr(partition) == (1, 2, 3))
    came = (BrokerId(3), BrokerId(1), BrokerId(2))
    partition.leader.proposed_isr = came
    controller.updates.propose_isr(partition, came)
    await until(lambda: len(controller.requests) == 2)

    (change,) = controller.requests[1].changes
    assert [member.broker_id for member in change.new_isr] == [1, 2, 3]
