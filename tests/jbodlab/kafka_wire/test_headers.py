from __future__ import annotations

import pytest

from broker.api.table import APIS
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.headers import (
    RequestHeader,
    describe_header,
    no_tags,
    read_request_header,
    read_response_header,
    request_header,
)
from jbodlab.vocabulary.errors import DecodeError


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "größe"])
def test_request_header_round_trip_for_every_version(client_id: str | None) -> None:
    for key, api in APIS.items():
        for version in api.accepted_versions:
            head = request_header(key, version, -5, client_id)
            expected = RequestHeader(key, version, -5, client_id, len(head))
            assert read_request_header(memoryview(head + b"body")) == expected


def test_flexible_request_header_by_its_bytes() -> None:
    assert request_header(3, 12, 7, "ab") == bytes.fromhex("0003 000c 00000007 0002 6162 00")
    assert request_header(3, 8, 7, None) == bytes.fromhex("0003 0008 00000007 ffff")


def test_unknown_tags_in_the_header_are_skipped() -> None:
    head = bytes.fromhex("0003 000c 00000007 0000 02 05 01 aa 8101 02 bbbb")
    assert read_request_header(head).body_offset == len(head)


@pytest.mark.parametrize(
    "text",
    ["", "0003", "0003 000c 00000007", "0003 000c 00000007 0005 6162", "0003 0001 00000007 fffe",
     "0003 000c 00000007 0000", "0003 000c 00000007 0000 01 00 05 aa", "0003 0001 00000007 0001 ff",
     "0003 000c 00000007 0000 ffffffffff01"],
)  # fmt: skip
def test_damaged_request_header_gives_a_decode_error(text: str) -> None:
    with pytest.raises(DecodeError):
        read_request_header(bytes.fromhex(text))


def test_response_header_of_api_versions_never_has_tags() -> None:
    assert no_tags(ApiKey.API_VERSIONS, 4) == b""
    assert no_tags(ApiKey.METADATA, 12) == b"\0"
    assert no_tags(ApiKey.METADATA, 8) == b""
    assert read_response_header(bytes.fromhex("00000009 00"), ApiKey.METADATA, 12) == (9, 5)
    assert read_response_header(bytes.fromhex("00000009 00"), ApiKey.API_VERSIONS, 4) == (9, 4)
    with pytest.raises(DecodeError):
        read_response_header(b"abc", ApiKey.METADATA, 8)


def test_header_with_many_tags_is_refused_unread() -> None:
    head = request_header(ApiKey.METADATA, 12, 1, "c")[:-1]

    read_request_header(head + b"\x64" + b"\x63\0" * 100)
    with pytest.raises(DecodeError, match="at most 100 header tags, got 101"):
        read_request_header(head + b"\x65" + b"\x63\0" * 101)


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (request_header(ApiKey.FETCH, 12, 1, "mirror")[:14], "FETCH version 12 of client 'mirr'"),
        (request_header(999, 1, 1, None), "API 999 version 1 of client ''"),
        (b"\0\1", "request of 2 bytes"),
    ],
)
def test_request_is_named_by_as_much_as_is_there(start: bytes, name: str) -> None:
    assert describe_header(start) == name
