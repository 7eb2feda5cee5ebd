from __future__ import annotations

import logging
from uuid import UUID

import pytest

from broker.controller_link.assignment_sender import AssignmentSender
from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.requests import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryAssignment,
)
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, TopicId, TopicIdPartition
from tests.broker.controller_link.scripted_controller import ScriptedController, connected
from tests.broker.disks import directory_id, eventually
from tests.waiting import turns

T1, T2 = TopicId(UUID(int=1 << 80)), TopicId(UUID(int=2 << 80))


def accept(request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
    return AssignReplicasToDirsResponse(results=(ErrorCode.NONE,) * len(request.assignments))


def make_sender(
    channel: ControllerChannel, epochs: list[int], gone: set[TopicIdPartition] | None = None
) -> AssignmentSender:
    return AssignmentSender(
        channel=channel,
        broker_id=BrokerId(3),
        broker_epoch=lambda: BrokerEpoch(epochs[0]),
        is_replica=lambda partition: partition not in (gone or set()),
        random=system_environment().random.random,
    )


async def test_assignments_reach_the_controller_in_the_order_of_directories_and_topics() -> None:
    controller = ScriptedController()
    controller.answers[AssignReplicasToDirsRequest] = accept
    accepted: list[int] = []
    async with connected(controller) as channel:
        sender = make_sender(channel, [17])
        sender.assign(T2, 0, directory_id(2))
        sender.assign(T1, 0, directory_id(1), lambda: accepted.append(0))
        sender.assign(T1, 1, directory_id(2), lambda: accepted.append(1))
        assert sender.pending_count == 3

        await eventually(lambda: sender.pending_count == 0)

        assert controller.requests == [
            AssignReplicasToDirsRequest(
                broker_id=BrokerId(3),
                broker_epoch=BrokerEpoch(17),
                assignments=(
                    DirectoryAssignment(topic_id=T1, partition=0, directory=directory_id(1)),
                    DirectoryAssignment(topic_id=T1, partition=1, directory=directory_id(2)),
                    DirectoryAssignment(topic_id=T2, partition=0, directory=directory_id(2)),
                ),
            )
        ]
        assert sorted(accepted) == [0, 1]
        await sender.stop()


async def test_assignments_wait_for_the_registration_and_survive_a_controller_that_is_away(
    controller: ScriptedController,
) -> None:
    answers = [
        AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AssignReplicasToDirsResponse(),
    ]
    controller.answers[AssignReplicasToDirsRequest] = lambda request: (
        answers.pop(0) if answers else accept(request)
    )
    epochs = [-1]
    async with connected(controller) as channel:
        sender = make_sender(channel, epochs)
        sender.assign(T1, 0, directory_id(1))
        await turns()
        assert controller.requests == []

        epochs[0] = 17

        await eventually(lambda: sender.pending_count == 0)
        assert len(controller.requests) == 3
        await sender.stop()


async def test_a_controller_that_stays_away_is_told_of_once(
    controller: ScriptedController, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "broker.controller_link.assignment_sender")
    refused = AssignReplicasToDirsResponse(error_code=ErrorCode.NOT_CONTROLLER)
    controller.answers[AssignReplicasToDirsRequest] = lambda _request: refused
    async with connected(controller) as channel:
        sender = make_sender(channel, [17])
        sender.assign(T1, 0, directory_id(1))
        await eventually(lambda: len(controller.requests) == 3)
        await sender.stop()

    assert [line for line in caplog.messages if "cannot report replica directories" in line] == [
        caplog.messages[0]
    ]


async def test_a_replica_that_is_gone_is_not_reported(controller: ScriptedController) -> None:
    controller.answers[AssignReplicasToDirsRequest] = accept
    async with connected(controller) as channel:
        sender = make_sender(channel, [17], {TopicIdPartition(T1, 0)})
        sender.assign(T1, 0, directory_id(1))
        await eventually(lambda: sender.pending_count == 0)
        assert controller.requests == []
        await sender.stop()


async def test_what_breaks_unexpectedly_is_sent_again_and_keeps_news_from_nobody(
    controller: ScriptedController, caplog: pytest.LogCaptureFixture
) -> None:
    controller.answers[AssignReplicasToDirsRequest] = accept
    accepted: list[int] = []

    def broken() -> None:
        accepted.append(0)
        raise ZeroDivisionError

    async with connected(controller) as channel:
        epochs = [17]
        sender = make_sender(channel, epochs)
        epochs.clear()
        sender.assign(T1, 0, directory_id(1), broken)
        sender.assign(T1, 1, directory_id(2), lambda: accepted.append(1))
        await eventually(lambda: "IndexError" in caplog.text)

        epochs.append(17)

        await eventually(lambda: sender.pending_count == 0 and len(accepted) == 2)
        assert sorted(accepted) == [0, 1]
        assert "ZeroDivisionError" in caplog.text
        await sender.stop()
