"""Control records as Kafka's dump tool prints them."""

from __future__ import annotations

import base64

from jbodlab.metadata.records.control_records import (
    CONTROL_TYPES,
    END_TRANSACTION_TYPES,
    ControlRecord,
    KRaftVersionRecord,
    KRaftVotersRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    body_version,
    control_type,
    decode_control,
    decode_end_transaction,
)
from jbodlab.metadata.records.json_text import JsonValue, data_text, to_json
from jbodlab.record_batch.record_batch import BatchRecord
from storage_tool.dump.report import members_text

_WORDS: dict[type[ControlRecord], str] = {
    LeaderChangeMessage: "LeaderChange:",
    SnapshotHeaderRecord: "SnapshotHeader",
    SnapshotFooterRecord: "SnapshotFooter",
    KRaftVersionRecord: "KRaftVersion",
    KRaftVotersRecord: "KRaftVoters",
}


def control_text(record: BatchRecord) -> str:
    """Return the end of the record's line.

    Raises:
        DecodeError: key or value are malformed.
    """
    number = control_type(record.key)
    if number in END_TRANSACTION_TYPES:
        marker = decode_end_transaction(record.key, record.value)
        return f" endTxnMarker: {marker.name} coordinatorEpoch: {marker.coordinator_epoch}"
    if number not in CONTROL_TYPES:
        return f" controlType: UNKNOWN({number})"
    control = decode_control(record.key, record.value)
    return f" {_WORDS[type(control)]} {data_text(control, body_version(control))}"


def control_members(record: BatchRecord) -> str:
    """Return the control record as a member of the record's JSON object, as text.

    Raises:
        DecodeError: key or value are malformed.
    """
    number = control_type(record.key)
    data: JsonValue
    if number in END_TRANSACTION_TYPES:
        marker = decode_end_transaction(record.key, record.value)
        name, data = (
            marker.name,
            {
                "version": marker.version,
                "coordinatorEpoch": marker.coordinator_epoch,
            },
        )
    elif number not in CONTROL_TYPES:
        name, data = "UNKNOWN", None
    else:
        control = decode_control(record.key, record.value)
        name = control.NAME
        data = to_json(control, body_version(control), with_unknown_tags=True)
    members: dict[str, JsonValue] = {"type": name, "number": number, "data": data}
    if data is None and record.value is not None:
        members["value"] = base64.b64encode(record.value).decode("ascii")
    return members_text(control=members)
