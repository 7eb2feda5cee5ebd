"""Values <-> protobuf messages: what follows from types round trips, and each exception by name."""

from __future__ import annotations

import typing
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.controller_api import messages as pb
from jbodlab.controller_api import requests as values
from jbodlab.controller_api import translate, type_hints
from jbodlab.controller_api.mapper import make_functions
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, Offset, TopicId

MESSAGES = {
    descriptor.name
    for method in pb.DESCRIPTOR.services_by_name["Controller"].methods
    for descriptor in (method.input_type, method.output_type)
}
KINDS = [getattr(values, name) for name in sorted(MESSAGES) if hasattr(values, name)]
TOPIC = TopicId(UUID("e493ee00-1889-4cfb-b6a5-08e965633afc"))
OTHER_TOPIC = TopicId(UUID("11111111-1889-4cfb-b6a5-08e965633afc"))
DIR_1 = DirectoryId(UUID("6f877d13-174e-4606-90ab-7f02c87c164c"))
DIR_2 = DirectoryId(UUID("3f668bf6-be2c-4aaa-b2b7-b6c2d2e89eae"))
ONE, TWO = BrokerId(1), BrokerId(2)
EPOCH = BrokerEpoch(17)

NUMBERS = st.integers(0, 2**31 - 1)
LONG = {Offset, BrokerEpoch}
SCALARS = {
    bool: st.booleans(),
    bytes: st.binary(max_size=20),
    int: NUMBERS,
    float: st.floats(allow_nan=False),
    str: st.text(max_size=8),
    # Zero is no id.
    UUID: st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)),
    ErrorCode: st.sampled_from(ErrorCode),
}


def any_value(hint: Any) -> st.SearchStrategy[Any]:
    """Return all values of a type, of the size that messages have room for."""
    if type_hints.is_optional(hint):
        return st.none() | any_value(type_hints.without_none(hint))
    if type_hints.is_list(hint):
        return st.lists(any_value(type_hints.element(hint)), max_size=4).map(tuple)
    if typing.get_origin(hint) is tuple:
        return st.tuples(*map(any_value, typing.get_args(hint)))
    if type_hints.is_struct(hint):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{name: any_value(each) for name, each in hints.items()})
    if hint in LONG:
        return st.integers(-(2**63), 2**63 - 1)
    if isinstance(hint, typing.NewType) and type_hints.plain(hint) is int:
        return st.integers(-(2**31), 2**31 - 1)
    return SCALARS[type_hints.plain(hint)]


def as_it_arrives(value: Any) -> Any:
    """Return a value without what its message cannot say."""
    match value:
        case values.CreatePartitionsRequest():
            return msgspec.structs.replace(
                value,
                topics=tuple(
                    msgspec.structs.replace(topic, assignments=topic.assignments or None)
                    for topic in value.topics
                ),
            )
        case values.AlterConfigsRequest():
            return msgspec.structs.replace(
                value,
                resources=tuple(
                    msgspec.structs.replace(
                        resource,
                        changes=tuple(
                            msgspec.structs.replace(change, operation=0)
                            for change in resource.changes
                        ),
                    )
                    for resource in value.resources
                ),
            )
    return value


def sent(value: object) -> Any:
    """Return the message as it arrives."""
    message = translate.to_proto(value)
    return type(message).FromString(message.SerializeToString())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_value_comes_back_as_it_was_sent(kind: type, data: st.DataObject) -> None:
    value = as_it_arrives(data.draw(any_value(kind)))

    assert translate.from_proto(sent(value)) == value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_empty_message_has_a_value(kind: type) -> None:
    if kind is values.BrokerRegistrationRequest:
        message = pb.BrokerRegistrationRequest(incarnation_id=bytes(16))
    else:
        message = getattr(pb, kind.__name__)()

    assert isinstance(translate.from_proto(message), kind)


def test_all_messages_of_the_service_are_translated() -> None:
    assert {kind.__name__ for kind in KINDS} == MESSAGES


def _assignment(topic: TopicId, partition: int, directory: DirectoryId) -> Any:
    return values.DirectoryAssignment(topic_id=topic, partition=partition, directory=directory)


def test_lists_are_grouped_by_neighbours_so_that_their_order_survives() -> None:
    assignments = (
        _assignment(TOPIC, 3, DIR_1),
        _assignment(TOPIC, 1, DIR_1),
        _assignment(OTHER_TOPIC, 1, DIR_1),
        _assignment(TOPIC, 2, DIR_2),
        _assignment(TOPIC, 0, DIR_1),
    )
    request = values.AssignReplicasToDirsRequest(
        broker_id=ONE, broker_epoch=EPOCH, assignments=assignments
    )
    results = tuple((each, ErrorCode(number)) for number, each in enumerate(assignments))

    message = sent(request)
    answer = sent(values.AssignReplicasToDirsResponse(results=results))

    for found in (message, answer):
        assert [
            (each.id, [(topic.topic_id, len(topic.partitions)) for topic in each.topics])
            for each in found.directories
        ] == [
            (DIR_1.bytes, [(TOPIC.bytes, 2), (OTHER_TOPIC.bytes, 1)]),
            (DIR_2.bytes, [(TOPIC.bytes, 1)]),
            (DIR_1.bytes, [(TOPIC.bytes, 1)]),
        ]
    assert answer.directories[0].topics[0].partitions[1].partition_index == 1
    assert answer.directories[0].topics[0].partitions[1].error_code == 1


@pytest.mark.parametrize(
    ("value", "flag", "is_set"),
    [
        (values.ElectLeadersRequest(election_type=0, topic_partitions=None), "all", True),
        (values.ElectLeadersRequest(election_type=0, topic_partitions=()), "all", False),
        (values.ListPartitionReassignmentsRequest(topic_partitions=None), "all", True),
        (values.ListPartitionReassignmentsRequest(topic_partitions=()), "all", False),
    ],
)
def test_null_and_empty_lists_differ_by_a_flag(value: object, flag: str, is_set: bool) -> None:
    assert getattr(sent(value), f"{flag}_partitions") is is_set


def test_null_and_no_cordoned_directories_differ_by_a_flag() -> None:
    for cordoned, is_set in ((None, False), ((), True)):
        heartbeat = values.BrokerHeartbeatRequest(
            broker_id=ONE,
            broker_epoch=EPOCH,
            current_metadata_offset=Offset(1),
            cordoned_log_dirs=cordoned,
        )
        assert sent(heartbeat).knows_cordoned_log_dirs is is_set


def test_cancelling_a_reassignment_is_not_asking_for_no_replicas() -> None:
    request = values.AlterPartitionReassignmentsRequest(
        partitions=(
            values.PartitionToReassign(topic="a", partition=0, replicas=None),
            values.PartitionToReassign(topic="a", partition=1, replicas=()),
        )
    )

    assert [each.cancel for each in sent(request).topics[0].partitions] == [True, False]


def test_no_assignments_for_new_partitions_leave_the_choice_to_the_controller() -> None:
    message = pb.CreatePartitionsRequest(topics=[pb.CreatePartitionsRequest.Topic(name="a")])

    assert translate.from_proto(message).topics[0].assignments is None


def test_topics_whose_partitions_are_all_led_have_no_rows() -> None:
    response = values.ElectLeadersResponse(
        results=(values.ElectionResult(topic="a", partition=1),), settled_topics=("b", "c")
    )

    assert [
        (each.topic, len(each.partition_result)) for each in sent(response).replica_election_results
    ] == [("a", 1), ("b", 0), ("c", 0)]


def test_assignments_and_configs_of_a_topic_are_messages() -> None:
    topic = values.NewTopic(
        name="a", assignments=((1, (ONE, TWO)), (0, ())), configs=(("x", None), ("y", ""))
    )

    message = sent(values.CreateTopicsRequest(topics=(topic,))).topics[0]

    assert [(each.partition_index, list(each.broker_ids)) for each in message.assignments] == [
        (1, [1, 2]),
        (0, []),
    ]
    assert [(each.name, each.HasField("value")) for each in message.configs] == [
        ("x", False),
        ("y", True),
    ]


def test_a_topic_id_of_zeros_is_none() -> None:
    message = pb.DeleteTopicsRequest(topics=[pb.DeleteTopicsRequest.Topic(topic_id=bytes(16))])

    assert translate.from_proto(message).topics[0].topic_id is None
    assert sent(values.DeleteTopicsRequest(topics=(values.TopicToDelete(),))).topics[0] == (
        pb.DeleteTopicsRequest.Topic()
    )


def test_an_end_offset_of_zero_is_there() -> None:
    response = values.MetadataStreamResponse(
        high_watermark=Offset(3), diverging_end_offset=Offset(0)
    )

    assert sent(response).HasField("diverging")
    assert not sent(values.MetadataStreamResponse(high_watermark=Offset(3))).HasField("diverging")


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.BrokerRegistrationRequest(incarnation_id=b"short"), "incarnation_id"),
        (
            pb.BrokerRegistrationRequest(incarnation_id=bytes(16), log_dirs=[bytes(17)]),
            "log_dirs",
        ),
        (pb.BrokerHeartbeatRequest(offline_log_dirs=[b""]), "offline_log_dirs"),
        (
            pb.AssignReplicasToDirsRequest(
                directories=[pb.AssignReplicasToDirsRequest.Directory()]
            ),
            "directories.id",
        ),
        (
            pb.AlterPartitionRequest(topics=[pb.AlterPartitionRequest.Topic(topic_id=b"x")]),
            "topics.topic_id",
        ),
        (
            pb.DeleteTopicsRequest(topics=[pb.DeleteTopicsRequest.Topic(topic_id=b"x")]),
            "topics.topic_id",
        ),
    ],
)
def test_an_id_that_is_not_16_bytes_is_refused(message: Any, field: str) -> None:
    with pytest.raises(DecodeError, match=rf"field {field} has \d+ bytes where an id has 16"):
        translate.from_proto(message)


def test_an_unknown_error_code_is_refused() -> None:
    with pytest.raises(DecodeError, match="9999"):
        translate.from_proto(pb.BrokerHeartbeatResponse(error_code=9999))


def test_absent_broker_epochs_mean_minus_one() -> None:
    heartbeat = translate.from_proto(pb.BrokerHeartbeatRequest(broker_id=1))
    registration = translate.from_proto(pb.BrokerRegistrationRequest(incarnation_id=bytes(16)))

    assert heartbeat.broker_epoch == -1
    assert registration.previous_broker_epoch == -1


def test_an_absent_timeout_is_a_minute_and_zero_is_zero() -> None:
    for kind in (
        pb.AlterPartitionReassignmentsRequest,
        pb.CreateTopicsRequest,
        pb.DeleteTopicsRequest,
        pb.CreatePartitionsRequest,
        pb.ElectLeadersRequest,
    ):
        assert translate.from_proto(kind()).timeout_ms == 60_000
        assert translate.from_proto(kind(timeout_ms=0)).timeout_ms == 0


def test_an_absent_permission_to_change_the_replication_factor_is_given() -> None:
    message = pb.AlterPartitionReassignmentsRequest()

    assert translate.from_proto(message).allow_replication_factor_change


class TooMuch(msgspec.Struct, frozen=True, kw_only=True):
    """A value with a field that UnregisterBrokerRequest has not."""

    broker_id: BrokerId
    speed: int


class TooLittle(msgspec.Struct, frozen=True, kw_only=True):
    """A value that leaves out a field of UnregisterBrokerResponse."""

    error_code: ErrorCode


def test_a_field_without_counterpart_is_noticed_at_once() -> None:
    with pytest.raises(AssertionError, match="UnregisterBrokerRequest has no field for speed"):
        make_functions(TooMuch, pb.UnregisterBrokerRequest.DESCRIPTOR)
    with pytest.raises(AssertionError, match=r"\{'error_message'\}, which no value has"):
        make_functions(TooLittle, pb.UnregisterBrokerResponse.DESCRIPTOR)
