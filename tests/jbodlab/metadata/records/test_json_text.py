"""The generated JSON text says what the JSON form says."""

from __future__ import annotations

import json

from hypothesis import given, settings

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.json_form import JsonValue, json_text, to_json
from jbodlab.metadata.records.json_text import data_text
from jbodlab.metadata.records.schema import RawRecord, Record
from tests.jbodlab.metadata.records.every_record import UNKNOWN_TAGS, every_record, every_version
from tests.jbodlab.metadata.records.strategies import versioned_records

EVERY = list(every_record())


def test_every_record_in_every_version_has_the_text_of_its_json_form() -> None:
    assert {(type(record), version) for record, version in EVERY} == set(every_version())
    for record, version in EVERY:
        assert data_text(record, version) == json_text(to_json(record, version))
        assert data_text(record, version, with_unknown_tags=True) == json_text(
            to_json(record, version, with_unknown_tags=True)
        )


@settings(max_examples=100, deadline=None)
@given(versioned_records())
def test_generated_text_is_the_text_of_the_json_form(versioned: tuple[Record, int]) -> None:
    record, version = versioned

    for shown in (False, True):
        assert data_text(record, version, with_unknown_tags=shown) == json_text(
            to_json(record, version, with_unknown_tags=shown)
        )


def test_every_record_in_every_version_comes_back_byte_for_byte() -> None:
    for record, version in EVERY:
        data = frame.encode(record, version)
        decoded = frame.decode(data)

        assert frame.encode(*decoded) == data
        # Undefined numbers are not even equal to themselves.
        assert repr(decoded) == repr(VersionedRecord(record, version))


def test_payload_is_json_that_any_parser_reads() -> None:
    for record, version in EVERY:
        payload = json.loads(frame.payload_text(VersionedRecord(record, version)))

        assert payload == {
            "type": record.NAME,
            "version": version,
            "data": to_json(record, version),
        }


def test_payload_of_a_later_version_has_the_fields_of_the_highest() -> None:
    decoded = frame.decode(bytes.fromhex("011d07 00000003 00"))

    assert frame.payload_text(decoded) == (
        '{"type":"UNREGISTER_CONTROLLER_RECORD","version":7,"data":{"controllerId":3}}'
    )


def test_record_of_unknown_type_has_no_fields() -> None:
    raw = RawRecord(api_key=99, version=2, body=b"\x01")

    assert frame.payload_text(VersionedRecord(raw, 2)) == (
        '{"type":"UNKNOWN","version":2,"data":{}}'
    )


def test_unknown_tags_are_shown_on_demand_at_every_level() -> None:
    found: list[JsonValue] = []

    def collect(value: JsonValue) -> None:
        if isinstance(value, dict):
            found.append(value.get("unknownTaggedFields"))
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)

    record = next(one for one, _ in EVERY if one.unknown_tags)
    collect(to_json(record, 0, with_unknown_tags=True))

    shown = [{"tag": 50, "data": "eHl6"}, {"tag": 200, "data": ""}]
    assert record.unknown_tags == UNKNOWN_TAGS
    assert found[0] == shown
    assert "unknownTaggedFields" not in to_json(record, 0)
