"""Content of records of the usual types, as structs with the fields of the record.

A field is null where the record does not have it, or says that nothing changes; a struct is null
for records of other types, and for those that cannot be decoded. A whole state of a partition has
all lists, empty where the record leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.read.arrays import Bools
from analytics.read.record_columns import DecodedColumns, Lists, Values
from analytics.read.texts import id_texts
from analytics.tables.table import BOOLEAN, INT, LONG, STRING, TYPES
from jbodlab.kafka_wire.schema import field_specs
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.secrets import REDACTED, redacted_data
from jbodlab.metadata.records.topic_records import (
    NO_LEADER_CHANGE,
    NO_RECOVERY_STATE_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import DecodeError

_INTS, _STRINGS = TYPES["int[]"], TYPES["string[]"]
PARTITION_CHANGE = "partition_change"
_NO_CHANGE = {"leader": NO_LEADER_CHANGE, "leader_recovery_state": NO_RECOVERY_STATE_CHANGE}
_EPOCHS = ("leader_epoch", "partition_epoch")
_BROKERS = ("replicas", "isr", "removing_replicas", "adding_replicas")
_ELR = ("eligible_leader_replicas", "last_known_elr")

STRUCTS: Mapping[str, pa.DataType] = {
    PARTITION_CHANGE: pa.struct(
        [(name, INT) for name in ("leader", *_EPOCHS, "leader_recovery_state")]
        + [(name, _INTS) for name in _BROKERS]
        + [("directories", _STRINGS)]
        + [(name, _INTS) for name in _ELR]
    ),
    "registration": pa.struct(
        [
            ("broker_epoch", LONG),
            ("incarnation_id", STRING),
            ("fenced", BOOLEAN),
            ("in_controlled_shutdown", BOOLEAN),
            ("rack", STRING),
            ("log_dirs", _STRINGS),
            ("cordoned_log_dirs", _STRINGS),
            ("end_points", TYPES["end_point[]"]),
            ("features", TYPES["feature[]"]),
        ]
    ),
    "registration_change": pa.struct(
        [
            ("broker_epoch", LONG),
            ("fenced", BOOLEAN),
            ("in_controlled_shutdown", BOOLEAN),
            ("log_dirs", _STRINGS),
            ("cordoned_log_dirs", _STRINGS),
        ]
    ),
    "config": pa.struct(
        [("resource_type", INT), ("resource_name", STRING), ("name", STRING), ("value", STRING)]
    ),
    "feature": pa.struct([("name", STRING), ("feature_level", INT)]),
}
"""Each typed column, and its fields."""


class TypedPart(NamedTuple):
    """Structs of some rows."""

    rows: np.ndarray[Any, Any]
    structs: pa.Array


def partition_changes(record_class: type[Record], decoded: DecodedColumns) -> pa.Array:
    """Return the structs of records about partitions, all of one type and version."""
    is_change = record_class is PartitionChangeRecord
    kind = STRUCTS[PARTITION_CHANGE]
    size = len(decoded.plain)
    arrays = []
    for column in kind:
        if column.name in _EPOCHS and is_change:
            arrays.append(pa.nulls(size, INT))
            continue
        found = decoded.fields[column.name]
        if isinstance(found, Values):
            values = found.values.astype(np.int32)
            nothing = values == _NO_CHANGE.get(column.name, 0) if is_change else None
            arrays.append(pa.array(values, mask=nothing))
        else:
            arrays.append(_lists(found, column.type, missing=~found.present if is_change else None))
    plain = pa.array(decoded.plain) if decoded.plain.any() else None
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=plain)


def _lists(found: Lists, kind: pa.DataType, missing: Bools | None) -> pa.Array:
    values = found.values
    elements = id_texts(values) if values.ndim == 2 else pa.array(values.astype(np.int32))
    mask = None if missing is None or not missing.any() else pa.array(missing)
    offsets = pa.array(np.ascontiguousarray(found.offsets, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)


def typed_value(name: str, value: bytes | None) -> dict[str, Any] | None:
    """Return what one record says, None for a record of another type or one that is damaged."""
    kinds, said = _SAID[name]
    try:
        versioned = frame.decode(value)
    except DecodeError:
        return None
    record = versioned.record
    if not isinstance(record, kinds):
        return None
    found = said(record)
    # Of these types only settings have secrets.
    return found if redacted_data(versioned) is None else found | {"value": REDACTED}


def wanted_types(name: str) -> tuple[int, ...]:
    """Return the numbers of the record types that a typed column tells of."""
    return tuple(kind.API_KEY for kind in _SAID[name][0])


def _partition_change(record: Any) -> dict[str, Any]:
    is_change = isinstance(record, PartitionChangeRecord)
    said: dict[str, Any] = {}
    for column in STRUCTS[PARTITION_CHANGE]:
        value = getattr(record, column.name, None)
        if is_change and value == _NO_CHANGE.get(column.name):
            value = None
        if column.type in (_INTS, _STRINGS):
            value = None if value is None and is_change else tuple(value or ())
        said[column.name] = plain_value(value)
    return said


def _registration_change(record: Any) -> dict[str, Any]:
    return _fields("registration_change", record) | {
        "fenced": {1: True, -1: False}.get(record.fenced),
        "in_controlled_shutdown": True if record.in_controlled_shutdown == 1 else None,
        "log_dirs": plain_value(record.log_dirs or None),
    }


def _fields(name: str, record: Any) -> dict[str, Any]:
    return {column.name: plain_value(getattr(record, column.name)) for column in STRUCTS[name]}


def plain_value(value: Any) -> Any:
    """Return a value with ids as texts, and structs by the names of their fields."""
    match value:
        case UUID():
            return kafka_uuid.to_text(value)
        case tuple():
            return [plain_value(each) for each in value]
        case BrokerEndpoint() | BrokerFeature():
            return {spec.name: getattr(value, spec.name) for spec in field_specs(type(value))}
        case _:
            return value


_Said = Callable[[Any], dict[str, Any]]
_SAID: Mapping[str, tuple[tuple[type[Record], ...], _Said]] = {
    PARTITION_CHANGE: ((PartitionRecord, PartitionChangeRecord), _partition_change),
    "registration": ((RegisterBrokerRecord,), partial(_fields, "registration")),
    "registration_change": ((BrokerRegistrationChangeRecord,), _registration_change),
    "config": ((ConfigRecord,), partial(_fields, "config")),
    "feature": ((FeatureLevelRecord,), partial(_fields, "feature")),
}
