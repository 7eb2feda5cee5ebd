"""Records as text for reports, without what nobody has to know."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jbodlab.config import dynamic_keys
from jbodlab.config.key_table import ConfigType
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import BROKER_RESOURCE, ConfigRecord
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
    data = redacted_data(versioned)
    if data is None:
        return frame.payload_text(versioned)
    return json_text({"type": record.NAME, "version": version, "data": data})


def redacted_data(
    versioned: VersionedRecord, *, with_unknown_tags: bool = False
) -> JsonValue | None:
    """Return the fields of a record with `REDACTED` in place of secrets; None if it has none."""
    record, version = versioned
    names = _hidden(record)
    if not names:
        return None
    shown: dict[str, JsonValue] = to_json(
        record, min(version, record.HIGHEST_VERSION), with_unknown_tags=with_unknown_tags
    )
    return {**shown, **dict.fromkeys(names, REDACTED)}


def _hidden(record: Record) -> tuple[str, ...]:
    if isinstance(record, ConfigRecord):
        return ("value",) if record.value is not None and _is_secret(record) else ()
    return SECRETS.get(type(record), ())


def _is_secret(config: ConfigRecord) -> bool:
    """Return whether a config may have a password; Kafka has them in the log in plain text."""
    if config.resource_type != BROKER_RESOURCE:
        return False
    key = dynamic_keys.key_of(config.name)
    return key is None or key.kind is ConfigType.PASSWORD
