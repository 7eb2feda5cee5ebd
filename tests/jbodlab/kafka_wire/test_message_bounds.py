from __future__ import annotations

import struct

import pytest

from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey, request_class, request_reader
from jbodlab.kafka_wire.message_bounds import bounds_check
from jbodlab.vocabulary.errors import DecodeError


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def topics(*partitions: int) -> bytes:
    """A ListOffsets request, version 2: topics with so many partitions."""
    body = struct.pack(">ibi", -1, 0, len(partitions))
    for count in partitions:
        body += text(b"t") + struct.pack(">i", count) + struct.pack(">iq", 0, -1) * count
    return body


def test_items_of_all_arrays_count_together() -> None:
    check = bounds_check(request_class(ApiKey.LIST_OFFSETS, 2), 7)

    check(topics(3, 2), 0)
    with pytest.raises(DecodeError, match="1 items more than allowed"):
        check(topics(3, 3), 0)


def test_an_array_of_too_many_items_is_refused_before_it_is_walked() -> None:
    check = bounds_check(request_class(ApiKey.METADATA, 1), 7)

    with pytest.raises(DecodeError, match="993 items more"):
        check(struct.pack(">i", 1000) + b"?" * 1000, 0)


def test_null_arrays_make_no_room_for_more_items() -> None:
    partition_without_replicas = struct.pack(">i", 0) + b"\0" + b"\0"
    topic = b"\2t" + b"\4" + partition_without_replicas * 3 + b"\0"
    body = struct.pack(">i", 1000) + b"\3" + topic * 2 + b"\0"
    reassignments = request_class(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)

    bounds_check(reassignments, 8)(body, 0)
    with pytest.raises(DecodeError, match="1 items more"):
        bounds_check(reassignments, 7)(body, 0)


def test_tagged_fields_count_as_items() -> None:
    body = b"\1" + b"\0\0" + b"\x08" + b"\x63\0" * 8

    bounds_check(request_class(ApiKey.METADATA, 12), 8)(body, 0)
    with pytest.raises(DecodeError, match="1 items more"):
        bounds_check(request_class(ApiKey.METADATA, 12), 7)(body, 0)


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS])
def test_requests_are_read_up_to_the_limit_of_their_api(key: ApiKey) -> None:
    limit = APIS[key].max_items

    def body(count: int) -> bytes:
        if key is ApiKey.METADATA:
            return struct.pack(">i", count) + text(b"") * count
        return (
            struct.pack(">i", count) + (b"\2" + text(b"") + struct.pack(">i", -1)) * count + b"\0"
        )

    request_reader(key, 1, limit)(body(limit), 0)
    with pytest.raises(DecodeError, match="1 items more"):
        request_reader(key, 1, limit)(body(limit + 1), 0)


def test_null_array_that_must_be_present_is_refused() -> None:
    check = bounds_check(request_class(ApiKey.LIST_OFFSETS, 2))
    with pytest.raises(DecodeError, match="a field that must be present is null"):
        check(struct.pack(">ibi", -1, 0, -1), 0)

    bounds_check(request_class(ApiKey.METADATA, 1))(struct.pack(">i", -1), 0)


def test_tagged_field_that_does_not_fill_its_size_is_refused() -> None:
    fetch = request_class(ApiKey.FETCH, 12)
    body = bytes(25) + b"\1\1\1" + b"\1\0"
    bounds_check(fetch)(body + b"\2\2c", 0)

    for tag in (b"\3\2cx", b"\1\2c"):
        with pytest.raises(DecodeError):
            bounds_check(fetch)(body + tag, 0)
