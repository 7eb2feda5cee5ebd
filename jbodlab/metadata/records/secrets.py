"""Records as text for reports, without what nobody has to know."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.json_text import JsonValue, json_text, to_json
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.security_records import UserScramCredentialRecord

REDACTED = "(redacted)"
SECRETS: Mapping[type[Record], tuple[str, ...]] = MappingProxyType(
    {UserScramCredentialRecord: ("salt", "storedKey", "serverKey")}
)
"""Fields that are as good as a password to whoever reads them."""


def redacted_text(versioned: VersionedRecord) -> str:
    """Return the JSON of `frame.payload_text` with secrets replaced by `REDACTED`."""
    record, version = versioned
    names = SECRETS.get(type(record))
    if names is None:
        return frame.payload_text(versioned)
    data: dict[str, JsonValue] = to_json(record, min(version, record.HIGHEST_VERSION))
    shown: JsonValue = {**data, **dict.fromkeys(names, REDACTED)}
    return json_text({"type": record.NAME, "version": version, "data": shown})
