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
from jbodlab.controller_api import translate
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, Offset, TopicId
from tests.jbodlab.controller_api.samples import sample

KINDS = [
    getattr(values, name)
    for method in pb.SERVICE.methods
    for name in (method.input_type.name, method.output_type.name)
]
TOPIC = TopicId(UUID("e493ee00-1889-4cfb-b6a5-08e965633afc"))
DIRECTORY = DirectoryId(UUID("6f877d13-174e-4606-90ab-7f02c87c164c"))
LONG = {Offset, BrokerEpoch}
SCALARS = {
    bytes: st.binary(max_size=20),
    int: st.integers(0, 2**31 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=8),
}


def any_value(hint: Any) -> st.SearchStrategy[Any]:
    """Return all values of a type, of the size that messages have room for."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        if arguments[1:] == (Ellipsis,):
            return st.lists(any_value(arguments[0]), max_size=4).map(tuple)
        return st.tuples(*map(any_value, arguments))
    if arguments:
        return st.one_of(*map(any_value, arguments))
    if hint in LONG:
        return st.integers(-(2**63), 2**63 - 1)
    if isinstance(hint, typing.NewType):
        return any_value(hint.__supertype__)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        return st.builds(hint, **{name: any_value(each) for name, each in hints.items()})
    return SCALARS[hint] if hint in SCALARS else st.from_type(hint)


def sent(value: object) -> Any:
    """Return the value as it arrives."""
    message = translate.to_proto(value)
    return translate.from_proto(type(message).FromString(message.SerializeToString()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=12)
@given(data=st.data())
def test_every_value_comes_back_as_it_was_sent(kind: type, data: st.DataObject) -> None:
    value = data.draw(any_value(kind))

    assert sent(value) == value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_no_field_is_forgotten(kind: type) -> None:
    assert sent(sample(kind)) == sample(kind)


def test_every_struct_has_a_message_with_equal_fields() -> None:
    structs = {
        name: set(kind.__struct_fields__)
        for name, kind in vars(values).items()
        if isinstance(kind, type)
        and (kind.__module__ == values.__name__ or kind is Endpoint)
        and name != "Request"
    }
    messages = {
        name: set(descriptor.fields_by_name)
        for name, descriptor in pb.DESCRIPTOR.message_types_by_name.items()
    }

    assert {name: messages.get(name) for name in structs} == structs
    # Lists that may be null or are in a list, and tuples of fixed length.
    assert messages.keys() - structs.keys() == {
        "Ids",
        "Integers",
        "ReplicaAssignment",
        "ReplicaLists",
        "TopicConfig",
        "TopicPartition",
        "TopicPartitions",
    }


def test_bytes_of_a_heartbeat() -> None:
    heartbeat = values.BrokerHeartbeatRequest(
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(300),
        current_metadata_offset=Offset(-1),
        want_fence=True,
        offline_log_dirs=(DIRECTORY,),
        cordoned_log_dirs=(),
    )

    assert translate.to_proto(heartbeat).SerializeToString().hex(" ") == (
        "08 01 "  # broker_id
        "10 ac 02 "  # broker_epoch
        "18 ff ff ff ff ff ff ff ff ff 01 "  # current_metadata_offset
        "20 01 "  # want_fence
        f"32 10 {DIRECTORY.bytes.hex(' ')} "  # offline_log_dirs
        "52 00"  # cordoned_log_dirs: known, and none
    )


def test_bytes_of_an_assignment() -> None:
    request = values.AssignReplicasToDirsRequest(
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(17),
        assignments=(values.DirectoryAssignment(topic_id=TOPIC, partition=3, directory=DIRECTORY),),
    )

    assert translate.to_proto(request).SerializeToString().hex(" ") == (
        f"08 01 10 11 1a 26 0a 10 {TOPIC.bytes.hex(' ')} 10 03 1a 10 {DIRECTORY.bytes.hex(' ')}"
    )


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (pb.BrokerRegistrationRequest(incarnation_id=b"short"), "incarnation_id"),
        (
            pb.BrokerRegistrationRequest(incarnation_id=bytes(16), log_dirs=[bytes(17)]),
            "log_dirs",
        ),
        (
            pb.BrokerHeartbeatRequest(cordoned_log_dirs={"values": [b""]}),
            "cordoned_log_dirs.values",
        ),
        (pb.BrokerHeartbeatRequest(metadata_log_dir=b""), "metadata_log_dir"),
        (pb.AssignReplicasToDirsRequest(assignments=[{}]), "assignments.topic_id"),
    ],
)
def test_an_id_that_is_not_16_bytes_is_refused(message: Any, field: str) -> None:
    with pytest.raises(DecodeError, match=rf"field {field} has \d+ bytes where an id has 16"):
        translate.from_proto(message)


def test_an_unknown_error_code_is_refused() -> None:
    with pytest.raises(DecodeError, match="9999"):
        translate.from_proto(pb.BrokerHeartbeatResponse(error_code=9999))


class TooMuch(msgspec.Struct, frozen=True, kw_only=True):
    """A value with a field that UnregisterBrokerRequest has not."""

    broker_id: BrokerId
    speed: int


class TooLittle(msgspec.Struct, frozen=True, kw_only=True):
    """A value that leaves out a field of UnregisterBrokerResponse."""

    error_code: ErrorCode


class MayBeNull(msgspec.Struct, frozen=True, kw_only=True):
    """A value with a None that UnregisterBrokerRequest cannot express."""

    broker_id: BrokerId | None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (TooMuch, pb.UnregisterBrokerRequest),
        (TooLittle, pb.UnregisterBrokerResponse),
        (MayBeNull, pb.UnregisterBrokerRequest),
    ],
)
def test_a_field_without_counterpart_is_noticed_at_once(kind: type, message: Any) -> None:
    with pytest.raises(AssertionError, match=message.DESCRIPTOR.name):
        translate.make_functions(kind, message.DESCRIPTOR)
