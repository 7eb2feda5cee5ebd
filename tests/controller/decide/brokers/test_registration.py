"""Rules that the text scenario `registrations.txt` does not show."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from controller.decide.brokers.registration import register_broker, unregister_broker
from controller.decide.heartbeats import Heartbeats
from jbodlab.controller_api.requests import Feature, UnregisterBrokerRequest
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from jbodlab.vocabulary.kafka_uuid import to_text
from tests.builders import (
    METADATA_VERSION_FEATURE,
    SESSION_TIMEOUT_MS,
    PureController,
    brokers,
    directories,
    directory,
    named_uuid,
)

REGISTRATION = ErrorCode.INVALID_REGISTRATION
REQUEST = ErrorCode.INVALID_REQUEST
VERSION = ErrorCode.UNSUPPORTED_VERSION


def feature(name: str, low: int, high: int) -> Feature:
    return Feature(name=name, min_supported_version=low, max_supported_version=high)


def test_registration_is_one_record_and_its_offset_is_the_epoch() -> None:
    controller = PureController(level=30, first_offset=41)

    answer = controller.register(
        1,
        "A2,A1",
        incarnation_id=UUID(int=7),
        rack="r1",
        listeners=(Endpoint(name="PLAINTEXT", host="b1", port=9092),),
    )

    assert answer.error_code == ErrorCode.NONE
    assert answer.broker_epoch == 42
    assert controller.records == (
        (
            RegisterBrokerRecord(
                broker_id=BrokerId(1),
                incarnation_id=UUID(int=7),
                broker_epoch=answer.broker_epoch,
                end_points=(BrokerEndpoint(name="PLAINTEXT", host="b1", port=9092),),
                features=(
                    BrokerFeature(
                        name="metadata.version", min_supported_version=1, max_supported_version=30
                    ),
                    BrokerFeature(
                        name="eligible.leader.replicas.version",
                        min_supported_version=0,
                        max_supported_version=1,
                    ),
                ),
                rack="r1",
                fenced=True,
                log_dirs=directories("A2,A1"),
            ),
            4,
        ),
    )
    registered = controller.state.image.cluster.brokers[BrokerId(1)]
    assert registered.record_offset == 42
    # The record has the order of the request; in memory they are sorted.
    assert registered.directories == directories("A1,A2")


@pytest.mark.parametrize(("level", "version"), [(17, 3), (22, 3), (29, 3), (30, 4)])
def test_version_of_the_record_follows_the_metadata_version(level: int, version: int) -> None:
    controller = PureController(level=level)

    controller.register(1, "A1")

    assert [each.version for each in controller.records] == [version]


def test_below_jbod_directories_are_neither_checked_nor_stored() -> None:
    controller = PureController(level=16)

    for number, dirs in enumerate(("", "LOST,LOST", "A1"), start=1):
        answer = controller.register(number, dirs)

        assert answer.error_code == ErrorCode.NONE
        assert controller.written()[0].log_dirs == ()  # type: ignore[attr-defined]


def test_g03_a_broker_of_the_wrong_cluster_is_not_registered() -> None:
    controller = PureController(level=30)

    answer = controller.register(2, "B1", cluster_id="other")

    assert answer.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert controller.written() == []
    assert not controller.state.image.cluster.brokers


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": ()}, REGISTRATION),
        ({"log_dirs": directories("B1,LOST")}, REGISTRATION),
        ({"log_dirs": directories("UNASSIGNED")}, REGISTRATION),
        ({"log_dirs": directories("MIGRATING")}, REGISTRATION),
        ({"log_dirs": (UUID(int=99),)}, REGISTRATION),
        ({"log_dirs": directories("B1,B1")}, REGISTRATION),
        ({"log_dirs": directories("B1,A2")}, REGISTRATION),
        ({"listeners": (Endpoint(name="P", host="b", port=0),)}, REQUEST),
        ({"listeners": (Endpoint(name="P", host=" ", port=1),)}, REQUEST),
        ({"listeners": (Endpoint(name="P", host="b", port=1, security_protocol=4),)}, REQUEST),
        ({"listeners": (Endpoint(name="P", host="b", port=1),) * 2}, REQUEST),
        ({"features": (feature("metadata.version", 1, 29),)}, VERSION),
        ({"features": ()}, VERSION),
        ({"features": (METADATA_VERSION_FEATURE, feature("new", 1, 2))}, VERSION),
        ({"features": (METADATA_VERSION_FEATURE,) * 2}, REQUEST),
        ({"broker_id": BrokerId(-1)}, REQUEST),
    ],
)
def test_a_registration_that_cannot_be_is_refused_and_writes_nothing(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    controller = PureController(level=30)
    controller.add_broker(1, "A1,A2")

    answer = controller.register(2, "B1", **fields)

    assert answer.error_code == code
    assert answer.error_message
    assert answer.broker_epoch == -1
    assert controller.records == ()
    assert BrokerId(2) not in controller.state.heartbeats.contacts


def test_a_finalized_feature_that_the_broker_does_not_list_is_refused() -> None:
    controller = PureController(level=30)
    controller.replay(FeatureLevelRecord(name="group.version", feature_level=1))

    refused = controller.register(1, "A1")
    accepted = controller.register(
        1, "A1", features=(METADATA_VERSION_FEATURE, feature("group.version", 0, 1))
    )

    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert refused.error_message == (
        "Unable to register because the broker does not support finalized version 1 of "
        "group.version. The broker wants a version between 0 and 0, inclusive."
    )
    assert accepted.error_code == ErrorCode.NONE


def test_another_process_is_refused_while_the_session_is_valid() -> None:
    controller = PureController()
    controller.add_broker(1, "A1")

    controller.advance(SESSION_TIMEOUT_MS)
    refused = controller.register(1, "A1")
    controller.advance(1)
    accepted = controller.register(1, "A1")

    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert accepted.error_code == ErrorCode.NONE


def test_an_expired_broker_that_was_not_fenced_yet_leaves_isr_and_leadership() -> None:
    # Kafka leaves it leader of what its new process knows nothing of.
    for level in (22, 30):
        controller = PureController(level=level)
        controller.add_broker(1, "A1")
        controller.add_broker(2, "B1")
        controller.create("foo", (1, 2))
        controller.advance(SESSION_TIMEOUT_MS + 1)
        first = controller.state.next_offset

        answer = controller.register(1, "A1")

        assert answer.broker_epoch == first
        assert [type(record) for record in controller.written()] == [
            PartitionChangeRecord,
            RegisterBrokerRecord,
        ]
        assert controller.partition("foo").leader == 2
        assert controller.partition("foo").isr == brokers(2)
        # The epoch is smaller than the offset of the registration's own record.
        assert controller.state.image.cluster.brokers[BrokerId(1)].record_offset == first + 1


def test_a_broker_must_reach_its_registration_record_and_not_only_its_epoch() -> None:
    controller = PureController(level=30)
    controller.add_broker(1, "A1")
    controller.add_broker(2, "B1")
    controller.create("foo", (1, 2))
    controller.advance(SESSION_TIMEOUT_MS + 1)
    epoch = controller.register(1, "A1").broker_epoch

    at_epoch = controller.heartbeat(1, current_metadata_offset=epoch)
    behind_record = controller.heartbeat(1, current_metadata_offset=epoch + 1)

    assert (at_epoch.is_caught_up, at_epoch.is_fenced) == (False, True)
    assert (behind_record.is_caught_up, behind_record.is_fenced) == (True, False)


def test_a_registration_is_atomic() -> None:
    controller = PureController()

    result = register_broker(controller.registration(1, "A1"), controller.state, 0)

    assert result.atomic


def test_unregistering_frees_the_directories_and_ends_the_session() -> None:
    controller = PureController()
    epoch = controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1")
    controller.create("foo", (1, 2))

    answer = controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=BrokerId(1)))

    assert answer.error_code == ErrorCode.NONE
    assert controller.written() == [
        PartitionChangeRecord(
            partition_id=0,
            topic_id=named_uuid("foo"),  # type: ignore[arg-type]
            isr=brokers(2),
            leader=BrokerId(2),
        ),
        UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=epoch),
    ]
    assert BrokerId(1) not in controller.state.heartbeats.contacts
    assert controller.partition("foo").replicas == brokers(1, 2)
    assert controller.register(3, "A1").error_code == ErrorCode.NONE


def test_a_directory_is_not_free_while_its_fenced_broker_is_registered() -> None:
    controller = PureController()
    controller.register(1, "A1")

    answer = controller.register(2, "A1")

    assert answer.error_message == (
        f"Broker 1 is already registered with directory ID {to_text(directory('A1'))}"
    )


def test_decisions_change_neither_state_nor_request() -> None:
    controller = PureController()
    controller.add_broker(1, "A1")
    before = replace(controller.state)

    register_broker(controller.registration(2, "B1"), controller.state, controller.now_ms)

    assert controller.state == before
    assert directory("A1") in controller.state.image.cluster.brokers[BrokerId(1)].directories


IN_ORDER: list[tuple[dict[str, Any], ErrorCode, str]] = [
    ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID, "Expected cluster ID"),
    (
        {"broker_id": BrokerId(1)},
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        "Another broker is registered with that broker id.",
    ),
    ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED, "ZooKeeper"),
    ({"log_dirs": ()}, REGISTRATION, "No directories specified in request"),
    ({"log_dirs": directories("LOST,C1,C1,B1")}, REGISTRATION, "Reserved directory ID in request"),
    ({"log_dirs": directories("C1,C1,B1")}, REGISTRATION, "Duplicate directory ID in request"),
    (
        {"log_dirs": directories("C1,B1")},
        REGISTRATION,
        "Broker 2 is already registered with directory",
    ),
    ({"listeners": (Endpoint(name="A", host="", port=1),)}, REQUEST, "no host"),
    ({"listeners": (Endpoint(name="A", host="h", port=0),)}, REQUEST, "port 0"),
    (
        {"features": (feature("metadata.version", 7, 29), feature("group.version", 1, 2))},
        VERSION,
        "finalized version 30 of metadata.version. The broker wants a version between 7 and 29, "
        "inclusive.",
    ),
    (
        {"features": (METADATA_VERSION_FEATURE, feature("group.version", 1, 2))},
        VERSION,
        "finalized version 0 of group.version. The broker wants a version between 1 and 2",
    ),
]


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_checks_of_a_registration_come_in_their_order(first: int) -> None:
    controller = PureController()
    controller.add_broker(1, "A1")
    controller.add_broker(2, "B1")
    wrong: dict[str, Any] = {}
    for fields, _, _ in reversed(IN_ORDER[first:]):
        wrong.update(fields)

    answer = controller.register(3, "D1", **wrong)

    _, code, text = IN_ORDER[first]
    assert answer.error_code == code
    assert text in answer.error_message


def test_after_a_failover_another_process_waits_for_a_whole_session() -> None:
    controller = PureController()
    controller.add_broker(1, "A1")
    controller.advance(SESSION_TIMEOUT_MS + 1)
    controller.state = replace(
        controller.state,
        heartbeats=Heartbeats.at_activation(
            controller.state.image.cluster.brokers, SESSION_TIMEOUT_MS, controller.now_ms
        ),
    )

    refused = controller.register(1, "A1")

    assert refused.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert not controller.heartbeat(1).is_fenced
    assert controller.records == ()
