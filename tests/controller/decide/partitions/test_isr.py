"""Rules that the text scenario `isr_and_elections.txt` does not show."""

from __future__ import annotations

from typing import Any

import pytest

from controller.decide.partitions.isr import alter_partition
from jbodlab.controller_api.requests import AlterPartitionRequest, IsrChangeResult
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, TopicId
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID
from tests.builders import PureController, brokers, named_uuid

ONE, TWO = BrokerId(1), BrokerId(2)
FOO = TopicId(named_uuid("foo"))


def cluster(level: int = 30) -> PureController:
    controller = PureController(level=level)
    for broker in (1, 2, 3):
        controller.add_broker(broker, f"D{broker},E{broker}")
    controller.create("foo", (1, 2, 3))
    return controller


def test_a_shrink_is_written_and_keeps_the_leader_epoch() -> None:
    controller = cluster()

    answer = controller.alter_isr(1, "foo", (1, 3))

    assert controller.written() == [
        PartitionChangeRecord(partition_id=0, topic_id=FOO, isr=brokers(1, 3))
    ]
    assert answer.results == (
        IsrChangeResult(
            topic_id=FOO,
            partition=0,
            leader=ONE,
            isr=brokers(1, 3),
            partition_epoch=1,  # type: ignore[arg-type]
        ),
    )


def test_a_shrink_raises_the_leader_epoch_at_old_levels() -> None:
    controller = cluster(level=11)

    controller.alter_isr(1, "foo", (1, 3))

    assert controller.partition("foo").leader_epoch == 1


def test_what_changes_nothing_succeeds_without_a_record() -> None:
    controller = cluster()

    answer = controller.alter_isr(1, "foo", (1, 2, 3))

    assert answer.results[0].error_code == ErrorCode.NONE
    assert answer.results[0].isr == brokers(1, 2, 3)
    assert controller.records == ()


def test_a_sender_of_another_epoch_is_stale() -> None:
    controller = cluster()
    request = AlterPartitionRequest(
        broker_id=ONE,
        broker_epoch=BrokerEpoch(controller.epoch(1) + 1),
        changes=(controller.isr_change("foo", (1,)),),
    )

    answer = controller.ask(alter_partition, request)

    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert answer.results == ()


@pytest.mark.parametrize(
    ("sender", "isr", "fields", "code"),
    [
        (1, (1,), {"topic_id": TopicId(named_uuid("x"))}, ErrorCode.UNKNOWN_TOPIC_ID),
        (1, (1,), {"partition": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, (1,), {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        (1, (1,), {"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        (1, (1,), {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        (2, (1, 2), {}, ErrorCode.INVALID_REQUEST),
        (1, (1,), {"partition_epoch": 4}, ErrorCode.INVALID_UPDATE_VERSION),
        (1, (1, 1), {}, ErrorCode.INVALID_REQUEST),
        (1, (1, -5), {}, ErrorCode.INVALID_REQUEST),
        (1, (1, 4), {}, ErrorCode.INVALID_REQUEST),
        (1, (2, 3), {}, ErrorCode.INVALID_REQUEST),
        (1, (), {}, ErrorCode.INVALID_REQUEST),
        (1, (1, 2), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, (1,), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        (1, (1,), {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        (1, (1,), {"leader_recovery_state": -3}, ErrorCode.INVALID_REQUEST),
        (1, (1, (2, 1)), {}, ErrorCode.INELIGIBLE_REPLICA),
        # Each of these also has what the ones after it are refused for.
        (
            3,
            (9,),
            {"topic_id": TopicId(named_uuid("x")), "partition": 4, "leader_epoch": 99},
            ErrorCode.UNKNOWN_TOPIC_ID,
        ),
        (3, (9,), {"topic_id": TopicId(ZERO_UUID)}, ErrorCode.UNKNOWN_TOPIC_ID),
        (3, (9,), {"partition": 4, "leader_epoch": 99}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (3, (9,), {"leader_epoch": 6, "partition_epoch": -1}, ErrorCode.NOT_CONTROLLER),
        (3, (9,), {"leader_epoch": -1, "partition_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        (3, (9,), {"leader_epoch": 4, "partition_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (3, (9,), {"partition_epoch": 4}, ErrorCode.INVALID_REQUEST),
        (1, (9,), {"partition_epoch": 4}, ErrorCode.INVALID_UPDATE_VERSION),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    sender: int, isr: tuple[Any, ...], fields: dict[str, Any], code: ErrorCode
) -> None:
    controller = cluster()
    # Both epochs are 5, so that there are smaller ones.
    for _ in range(5):
        controller.replay(PartitionChangeRecord(partition_id=0, topic_id=FOO, leader=ONE))

    answer = controller.alter_isr(sender, "foo", isr, **fields)

    assert [result.error_code for result in answer.results] == [code]
    assert answer.results[0].isr == ()
    assert controller.records == ()


def test_a_member_with_its_right_epoch_is_accepted() -> None:
    controller = cluster()
    controller.alter_isr(1, "foo", (1,))

    answer = controller.alter_isr(1, "foo", (1, (2, controller.epoch(2))))

    assert answer.results[0].error_code == ErrorCode.NONE
    assert controller.partition("foo").isr == brokers(1, 2)


def test_a_partition_named_twice_sees_its_own_first_change() -> None:
    controller = cluster()
    request = AlterPartitionRequest(
        broker_id=ONE,
        broker_epoch=controller.epoch(1),
        changes=(controller.isr_change("foo", (1, 2)), controller.isr_change("foo", (1, 3))),
    )

    answer = controller.ask(alter_partition, request)

    assert [result.error_code for result in answer.results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_UPDATE_VERSION,
    ]
    assert len(controller.records) == 1


def test_an_empty_list_of_changes_is_answered() -> None:
    controller = cluster()
    request = AlterPartitionRequest(broker_id=ONE, broker_epoch=controller.epoch(1), changes=())

    answer = controller.ask(alter_partition, request)

    assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
