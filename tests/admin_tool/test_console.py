"""Lines to records and records to lines, and settings for librdkafka."""

from __future__ import annotations

import pytest

from admin_tool.console.formatter import CREATE_TIME, Formatter, ShownRecord
from admin_tool.console.line_reader import LineReader, ReadRecord
from admin_tool.errors import AdminError, UsageError

RECORD = ShownRecord(
    partition=3,
    offset=7,
    epoch=2,
    timestamp_type=CREATE_TIME,
    timestamp=99,
    headers=[("h", b"v"), ("i", None)],
    key=b"k",
    value=b"\xff",
)
BARE = ShownRecord(
    partition=0,
    offset=0,
    epoch=None,
    timestamp_type=0,
    timestamp=-1,
    headers=(),
    key=None,
    value=None,
)
ALL = {
    f"print.{name}": "true"
    for name in ("timestamp", "partition", "offset", "epoch", "headers", "key")
}


@pytest.mark.parametrize(
    ("given", "record", "expected"),
    [
        ({}, RECORD, b"\xff\n"),
        ({}, BARE, b"null\n"),
        (ALL, RECORD, b"CreateTime:99\tPartition:3\tOffset:7\tEpoch:2\th:v,i:null\tk\t\xff\n"),
        (
            ALL,
            BARE,
            b"NO_TIMESTAMP\tPartition:0\tOffset:0\tEpoch:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n",
        ),
        ({"print.key": "true", "key.separator": "|", "print.value": "false"}, RECORD, b"k\n"),
        (
            {
                "print.key": "true",
                "key.separator": "\\t-",
                "null.literal": "",
                "line.separator": ";",
            },
            BARE,
            b"\t-;",
        ),
    ],
)
def test_records_are_printed_as_the_properties_say(
    given: dict[str, str], record: ShownRecord, expected: bytes
) -> None:
    assert Formatter(given).line(record) == expected


def test_numbers_are_deserialized() -> None:
    formatter = Formatter({"value.deserializer": "org.apache.kafka.x.ShortDeserializer"})
    record = ShownRecord(
        **{name: getattr(BARE, name) for name in BARE.__slots__ if name != "value"}, value=b"\1\2"
    )
    assert formatter.line(record) == b"258\n"
    with pytest.raises(AdminError, match="ShortDeserializer: 1 bytes are no number of 2"):
        formatter.line(RECORD)


@pytest.mark.parametrize("given", [{"print.all": "true"}, {"key.deserializer": "MyDeserializer"}])
def test_what_the_formatter_does_not_know_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"print\.all|MyDeserializer"):
        Formatter(given)


KEYED = {"parse.key": "true"}
HEADED = {**KEYED, "parse.headers": "true", "null.marker": "NULL"}


@pytest.mark.parametrize(
    ("given", "line", "expected"),
    [
        ({}, b"a\tb", ReadRecord(value=b"a\tb")),
        ({}, b"", ReadRecord(value=b"")),
        (KEYED, b"k\tv\tw", ReadRecord(key=b"k", value=b"v\tw")),
        ({**KEYED, "key.separator": "=>"}, b"k=>v", ReadRecord(key=b"k", value=b"v")),
        ({**KEYED, "ignore.error": "true"}, b"v", ReadRecord(value=b"v")),
        (
            HEADED,
            b"h:1,i:NULL\tk\tNULL",
            ReadRecord(headers=(("h", b"1"), ("i", None)), key=b"k", value=None),
        ),
        (HEADED, b"NULL\tNULL\tv", ReadRecord(value=b"v")),
    ],
)
def test_lines_are_read_as_the_properties_say(
    given: dict[str, str], line: bytes, expected: ReadRecord
) -> None:
    assert LineReader(given).read(line, 1) == expected


@pytest.mark.parametrize(
    ("given", "line", "message"),
    [
        (KEYED, b"v", "No key separator found on line number 4: 'v'"),
        (HEADED, b"v", "No headers end found on line number 4: 'v'"),
        (HEADED, b"h\tk\tv", "No header key separator found in pair 'h' on line number 4"),
        (HEADED, b"NULL:1\tk\tv", "a header on line number 4 has no key"),
    ],
)
def test_a_line_that_lacks_something_is_named(
    given: dict[str, str], line: bytes, message: str
) -> None:
    with pytest.raises(AdminError, match=message):
        LineReader(given).read(line, 4)


@pytest.mark.parametrize(
    "given",
    [
        {"headers.separator": ":"},
        {"null.marker": "\t"},
        {"parse.value": "true"},
        {"key.separator": ""},
    ],
)
def test_separators_that_cannot_be_told_apart_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        LineReader(given)
