"""JSON as Kafka's dump tool prints it."""

from __future__ import annotations

import json

import pytest

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import (
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord, payload_text
from jbodlab.metadata.records.json_text import JsonValue, json_text, to_json
from jbodlab.metadata.records.schema import RawRecord
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId
from jbodlab.vocabulary.kafka_uuid import ONE_UUID
from tests.jbodlab.metadata.records.every_record import UNKNOWN_TAGS, every_record

EVERY = list(every_record())
ONE = "AAAAAAAAAAAAAAAAAAAAAQ"


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


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1024.0, "1024.0"),
        (0.001, "0.001"),
        (9.9e-4, "9.9E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1048576.0 * 10, "1.048576E7"),
        (-12_345_678.5, "-1.23456785E7"),
        (1e100, "1.0E100"),
        (2.5e-300, "2.5E-300"),
        (0.00012, "1.2E-4"),
        (5e-324, "4.9E-324"),
        (1e23, "1.0E23"),
        (2e-4, "2.0E-4"),
        (10_000_001.0, "1.0000001E7"),
    ],
)
def test_doubles_are_printed_as_java_does(number: float, text: str) -> None:
    assert json_text(number) == text


def test_undefined_doubles_are_quoted() -> None:
    for number, text in ((float("nan"), "NaN"), (float("-inf"), "-Infinity")):
        assert to_json(ClientQuotaRecord(value=number), 0)["value"] == text


def test_only_quotes_backslashes_and_control_characters_are_escaped() -> None:
    assert json_text('a"b\\c\n\x01\x1f/ä€') == '"a\\"b\\\\c\\n\\u0001\\u001F/ä€"'


def test_untagged_fields_are_always_there_and_tagged_only_when_not_default() -> None:
    record = PartitionChangeRecord(
        partition_id=2,
        topic_id=TopicId(ONE_UUID),
        isr=(BrokerId(1), BrokerId(3)),
        removing_replicas=(),
        directories=(DirectoryId(ONE_UUID),),
        eligible_leader_replicas=(),
    )

    found = to_json(record, 2)

    assert list(found.items()) == [
        ("partitionId", 2),
        ("topicId", ONE),
        ("isr", [1, 3]),
        ("removingReplicas", []),
        ("directories", [ONE]),
        ("eligibleLeaderReplicas", []),
    ]


def test_fields_outside_the_version_are_absent() -> None:
    oldest = to_json(RegisterBrokerRecord(), 0)

    assert list(oldest) == [
        "brokerId",
        "incarnationId",
        "brokerEpoch",
        "endPoints",
        "features",
        "rack",
        "fenced",
    ]
    assert "isMigratingZkBroker" in to_json(RegisterBrokerRecord(), 2)


def test_bytes_are_padded_base64_and_null_is_null() -> None:
    scram = to_json(UserScramCredentialRecord(salt=b"\x01\x02"), 0)

    assert scram["salt"] == "AQI="
    assert to_json(ConfigRecord(value=None), 0)["value"] is None


def test_payload_is_one_line_without_blanks_and_without_unknown_tags() -> None:
    record = BeginTransactionRecord(name="Bootstrap records", unknown_tags=((9, b"x"),))
    change = BrokerRegistrationChangeRecord(broker_id=BrokerId(1), fenced=-1)

    assert payload_text(VersionedRecord(record, 0)) == (
        '{"type":"BEGIN_TRANSACTION_RECORD","version":0,"data":{"name":"Bootstrap records"}}'
    )
    assert payload_text(VersionedRecord(change, 0)) == (
        '{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":0,'
        '"data":{"brokerId":1,"brokerEpoch":0,"fenced":-1}}'
    )
