from __future__ import annotations

import logging
from uuid import UUID

import pytest

from controller.decide.partitions.directories import assign_replicas_to_dirs
from controller.decide.partitions.topics import delete_topics
from jbodlab.controller_api.requests import (
    AssignReplicasToDirsRequest,
    DeleteTopicsRequest,
    TopicToDelete,
)
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.config_records import ConfigRecord
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


def test_partitions_come_first_then_one_registration_change() -> None:
    controller = cluster()
    controller.create("foo", (1, 2), (2, 1), (1, 2))
    controller.assign_partitions(1, ("foo", 0, "A1"), ("foo", 1, "A1"), ("foo", 2, "A2"))

    answer = controller.heartbeat(1, offline_log_dirs="A1")

    assert answer.error_code == ErrorCode.NONE
    assert not answer.is_fenced
    assert controller.written() == [
        change("foo", 0, isr=brokers(2), leader=TWO),
        # It did not lead this one, so the leader epoch stays.
        change("foo", 1, isr=brokers(2)),
        left(controller, 1, "A2,A3"),
    ]
    assert [each.version for each in controller.records] == [2, 2, 2]


def test_directories_that_fail_together_make_one_registration_change() -> None:
    controller = cluster()
    controller.create("foo", (1, 2), (1, 2))
    controller.assign_partitions(1, ("foo", 0, "A3"), ("foo", 1, "A1"))

    controller.heartbeat(1, offline_log_dirs="A3,A1")

    # In the order of the registration, not of the report.
    assert controller.written() == [
        change("foo", 1, isr=brokers(2), leader=TWO),
        change("foo", 0, isr=brokers(2), leader=TWO),
        left(controller, 1, "A2"),
    ]


def test_a_repeated_report_writes_nothing() -> None:
    controller = cluster()
    controller.heartbeat(1, offline_log_dirs="A1")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.records == ()


def test_partitions_keep_naming_the_failed_directory() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.partition("foo").directory(ONE) == directories("A1")[0]


def test_partitions_without_a_known_directory_are_not_affected() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.written() == [left(controller, 1, "A2,A3")]


def test_a_fenced_broker_reports_as_well() -> None:
    controller = PureController()
    controller.register(1, "A1,A2")

    controller.heartbeat(1, offline_log_dirs="A2", want_fence=True)

    assert controller.written() == [left(controller, 1, "A1")]


def test_the_only_replica_stays_in_the_isr_without_leading() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    controller.assign(1, foo="A1")

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.written()[0] == change("foo", leader=BrokerId(-1))
    assert controller.partition("foo").isr == brokers(1)


def test_unclean_election_is_used_where_the_topic_allows_it() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")
    controller.alter_isr(1, "foo", (1,))
    controller.replay(
        ConfigRecord(
            resource_type=2,
            resource_name="foo",
            name="unclean.leader.election.enable",
            value="true",
        )
    )

    controller.heartbeat(1, offline_log_dirs="A1")

    assert controller.written()[0] == change(
        "foo", isr=brokers(2), leader=TWO, leader_recovery_state=1
    )


def test_a_replica_in_an_offline_directory_does_not_lead_after_the_leader_is_gone() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(2, foo="B1")
    controller.heartbeat(2, offline_log_dirs="B1")

    controller.heartbeat(1, want_fence=True)

    assert controller.partition("foo").leader == -1


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


def test_each_assignment_gets_its_own_code_in_the_order_of_the_request() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.create("other", (2,))

    answer = controller.assign_partitions(
        1,
        ("nope", 0, "A1"),
        ("foo", 0, "A1"),
        ("foo", 7, "A1"),
        ("foo", -1, "A1"),
        ("other", 0, "A1"),
    )

    assert list(answer.results) == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert controller.written() == [change("foo", directories=directories("A1,UNASSIGNED"))]


def test_an_assignment_that_says_what_is_known_writes_nothing() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")

    answer = controller.assign(1, foo="A1")

    assert list(answer.results) == [ErrorCode.NONE]
    assert controller.records == ()


def test_a_move_between_online_directories_changes_neither_leader_nor_isr() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")

    controller.assign(1, foo="A2")

    assert controller.written() == [change("foo", directories=directories("A2,UNASSIGNED"))]


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


def test_the_assignment_that_heals_a_partition_elects_its_leader() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    controller.assign(1, foo="A1")
    controller.heartbeat(1, offline_log_dirs="A1")

    controller.assign(1, foo="A2")

    # Kafka still judges by the old directory and waits for the next event.
    assert controller.written() == [change("foo", leader=ONE, directories=directories("A2"))]


def test_of_two_assignments_of_one_replica_the_last_counts() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))

    controller.assign_partitions(1, ("foo", 0, "LOST"), ("foo", 0, "A3"))

    assert controller.partition("foo").directory(ONE) == directories("A3")[0]
    assert controller.partition("foo").isr == brokers(1, 2)


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


def test_the_last_of_three_failed_replicas_stays_in_the_isr_without_leading() -> None:
    controller = cluster()
    controller.add_broker(3, "C1,C2")
    controller.create("foo", (1, 2, 3))
    for broker, name in ((1, "A1"), (2, "B1"), (3, "C1")):
        controller.assign(broker, foo=name)

    for broker, name in ((1, "A1"), (2, "B1"), (3, "C1")):
        assert not controller.heartbeat(broker, offline_log_dirs=name).is_fenced

    assert controller.partition("foo").isr == brokers(3)
    assert controller.partition("foo").leader == -1


def test_another_brokers_directory_is_not_taken_away() -> None:
    controller = cluster()

    controller.heartbeat(1, offline_log_dirs="B1")

    assert controller.records == ()
    assert controller.state.image.cluster.brokers[TWO].directories == directories("B1,B2,B3")


def test_a_heartbeat_that_does_not_name_a_failed_directory_brings_it_not_back() -> None:
    # It was sent before the one that told of the failure, and arrives after it.
    controller = cluster()
    controller.heartbeat(1, offline_log_dirs="A1")

    controller.heartbeat(1)

    assert controller.records == ()
    assert controller.state.image.cluster.brokers[ONE].directories == directories("A2,A3")


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


def test_an_empty_list_of_assignments_is_answered() -> None:
    controller = cluster()

    answer = controller.assign_partitions(1)

    assert (answer.error_code, answer.results) == (ErrorCode.NONE, ())
    assert controller.records == ()


def test_a_fenced_broker_may_assign() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.heartbeat(1, want_fence=True)

    controller.assign(1, foo="A2")

    assert controller.written() == [change("foo", directories=directories("A2,UNASSIGNED"))]


@pytest.mark.parametrize("name", ["UNASSIGNED", "MIGRATING"])
def test_reserved_directories_that_count_as_online_change_neither_leader_nor_isr(
    name: str,
) -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="A1")

    controller.assign(1, foo=name)

    assert controller.written() == [change("foo", directories=directories(f"{name},UNASSIGNED"))]


def test_a_replica_joins_the_isr_again_once_its_directory_is_online() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.assign(1, foo="LOST")

    refused = controller.alter_isr(2, "foo", (2, 1))
    controller.assign(1, foo="A1")
    accepted = controller.alter_isr(2, "foo", (2, 1))

    assert refused.results[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    assert accepted.results[0].error_code == ErrorCode.NONE


def test_replicas_of_a_deleted_topic_are_answered_as_unknown() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    controller.ask(delete_topics, DeleteTopicsRequest(topics=(TopicToDelete(name="foo"),)))

    answer = controller.assign(1, foo="A2")

    assert list(answer.results) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert controller.records == ()


def test_thousands_of_replicas_are_assigned_at_once() -> None:
    controller = cluster()
    controller.create("many", *([(1,)] * 5_000))

    answer = controller.assign_partitions(1, *(("many", index, "A2") for index in range(5_000)))

    assert list(answer.results) == [ErrorCode.NONE] * 5_000
    assert [each.directories for each in controller.written()] == [directories("A2")] * 5_000  # type: ignore[attr-defined]
