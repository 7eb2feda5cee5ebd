"""JSON as Kafka's dump tool prints it."""

from __future__ import annotations

import pytest

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
from jbodlab.metadata.records.json_form import json_text, to_json
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicId
from jbodlab.vocabulary.kafka_uuid import ONE_UUID

ONE = "AAAAAAAAAAAAAAAAAAAAAQ"


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
