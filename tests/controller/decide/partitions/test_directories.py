"""Rules that the text scenario `directories_of_replicas.txt` does not show."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from controller.decide.partitions.directories import assign_replicas_to_dirs
from jbodlab.controller_api.requests import AssignReplicasToDirsRequest
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId
from tests.builders import PureController, brokers, directories, named_uuid

ONE, TWO = BrokerId(1), BrokerId(2)


def change(topic: str, index: int = 0, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=index, topic_id=named_uuid(topic), **fields)  # type: ignore[arg-type]


def left(controller: PureController, broker: int, dirs: str) -> Record:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(broker),
        broker_epoch=controller.epoch(broker),
        log_dirs=directories(dirs),
    )


def cluster(level: int = 30) -> PureController:
    controller = PureController(level=level)
    controller.add_broker(1, "A1,A2,A3")
    controller.add_broker(2, "B1,B2,B3")
    return controller


def assign_request(epoch: int) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(
        broker_id=ONE, broker_epoch=BrokerEpoch(epoch), assignments=()
    )


def test_assignments_below_their_level_are_unsupported() -> None:
    controller = PureController(level=16)
    epoch = controller.register(1, "A1").broker_epoch

    answer = controller.ask(assign_replicas_to_dirs, assign_request(epoch))

    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_assignments_of_another_epoch_are_stale() -> None:
    controller = cluster()

    answer = controller.ask(assign_replicas_to_dirs, assign_request(controller.epoch(1) + 1))
    unknown = PureController().ask(assign_replicas_to_dirs, assign_request(1))

    assert answer.error_code == unknown.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("name", ["LOST", "B1", "X9", "A1"])
def test_a_replica_in_a_directory_that_is_not_online_leaves_the_isr_by_a_second_record(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    controller = cluster()
    controller.create("foo", (1, 2), (1, 2))
    controller.assign_partitions(1, ("foo", 0, "A2"), ("foo", 1, "A2"))
    controller.heartbeat(1, offline_log_dirs="A1")

    with caplog.at_level(logging.WARNING):
        answer = controller.assign_partitions(1, ("foo", 0, name), ("foo", 1, name))

    assert list(answer.results) == [ErrorCode.NONE, ErrorCode.NONE]
    assert controller.written() == [
        change("foo", 0, directories=directories(f"{name},UNASSIGNED")),
        change("foo", 1, directories=directories(f"{name},UNASSIGNED")),
        change("foo", 0, isr=brokers(2), leader=TWO),
        change("foo", 1, isr=brokers(2), leader=TWO),
    ]
    assert len(caplog.records) == 2


def test_old_partitions_get_their_whole_list_with_the_first_assignment() -> None:
    controller = PureController(level=16)
    controller.register(1, "")
    controller.heartbeat(1)
    controller.register(2, "")
    controller.heartbeat(2)
    controller.create("foo", (1, 2))
    upgraded = PureController(level=22)
    upgraded.state = controller.state
    from jbodlab.metadata.records.config_records import FeatureLevelRecord

    upgraded.replay(FeatureLevelRecord(name="metadata.version", feature_level=22))
    incarnation = upgraded.state.image.cluster.brokers[ONE].incarnation_id
    upgraded.register(1, "A1,A2", incarnation_id=incarnation)

    upgraded.assign(1, foo="A2")

    assert upgraded.written() == [change("foo", directories=directories("A2,MIGRATING"))]


@pytest.mark.parametrize("level", range(17, 31))
def test_at_every_level_with_directories_a_failure_is_followed_through(level: int) -> None:
    controller = cluster(level)
    controller.add_broker(3, "C1")
    controller.create("foo", (1, 3))
    assert controller.partition("foo").directories == directories("UNASSIGNED,C1")
    controller.assign(1, foo="A1")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.written() == [
        change("foo", isr=brokers(3), leader=BrokerId(3)),
        left(controller, 1, "A2,A3"),
    ]


def test_a_broker_may_have_a_thousand_directories_and_lose_all_but_one() -> None:
    controller = PureController()
    many = tuple(DirectoryId(UUID(int=number << 64)) for number in range(1, 1_001))
    controller.add_broker(1, "", log_dirs=many)

    controller.heartbeat(1, offline_log_dirs=many[:-1])

    (record,) = controller.written()
    assert isinstance(record, BrokerRegistrationChangeRecord)
    assert record.log_dirs == many[-1:]


def test_the_brokers_own_directory_is_found_among_a_hundred_thousand(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # Each of the others is worth a warning.
    caplog.set_level(logging.ERROR)
    controller = cluster()
    strange = tuple(DirectoryId(UUID(int=number << 64)) for number in range(1, 100_001))

    controller.heartbeat(1, offline_log_dirs=(*strange, *directories("A1")))

    assert controller.written() == [left(controller, 1, "A2,A3")]


def test_thousands_of_replicas_are_assigned_at_once() -> None:
    controller = cluster()
    controller.create("many", *([(1,)] * 5_000))

    answer = controller.assign_partitions(1, *(("many", index, "A2") for index in range(5_000)))

    assert list(answer.results) == [ErrorCode.NONE] * 5_000
    assert [each.directories for each in controller.written()] == [directories("A2")] * 5_000  # type: ignore[attr-defined]
