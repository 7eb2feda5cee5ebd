"""`jbodlab storage explain`: the fields of records, by the types that `storage dump` prints."""

from __future__ import annotations

import io
import json

import pytest

from jbodlab.cli.output import Output
from jbodlab.vocabulary.errors import FormatError
from storage_tool import explain


def explained(record_type: str | None) -> list[dict[str, str]]:
    out = io.StringIO()
    explain.run(record_type, Output(is_json=True, out=out))
    found: list[dict[str, str]] = json.loads(out.getvalue())
    return found


def test_record_of_the_metadata_log_is_found_by_its_type_in_any_case() -> None:
    rows = explained("partition_record")

    assert [row["field"] for row in rows][:3] == ["partitionId", "topicId", "replicas"]
    assert rows[-1] == {
        "record": "PartitionRecord",
        "field": "lastKnownElr",
        "type": "[]int32 or null",
        "versions": "2+",
        "tag": "2",
        "default": "null",
        "meaning": rows[-1]["meaning"],
    }


def test_record_is_found_by_its_name_as_well() -> None:
    assert explained("PartitionRecord") == explained("PARTITION_RECORD")
    assert explained("OffsetCommitValue") == explained("1")


def test_record_of_a_group_is_found_by_its_number_with_key_and_value() -> None:
    rows = {(row["record"], row["field"]): row for row in explained("1")}

    assert ("OffsetCommitKey", "group") in rows
    assert rows["OffsetCommitValue", "expireTimestamp"]["versions"] == "1"


def test_fields_of_nested_structs_stand_behind_the_field_that_holds_them() -> None:
    fields = [row["field"] for row in explained("KRAFT_VOTERS")]

    assert fields[1:3] == ["voters", "voters[].voterId"]
    assert "voters[].kRaftVersionFeature.minSupportedVersion" in fields


def test_every_record_is_listed_and_every_field_has_a_meaning() -> None:
    listed = explained(None)

    assert len(listed) == len(explain.RECORDS) == 27 + 5 + 10
    assert all(row["meaning"] for row in listed)
    for row in listed:
        if row["type"] not in ("NO_OP_RECORD", "END_TRANSACTION_RECORD"):
            assert all(field["meaning"] for field in explained(row["type"])), row["type"]


def test_unknown_type_is_refused() -> None:
    with pytest.raises(FormatError, match="'NOPE'"):
        explain.run("NOPE", Output())
