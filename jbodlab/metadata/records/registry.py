"""Record type number <-> class."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jbodlab.metadata.records import (
    cluster_records,
    config_records,
    security_records,
    topic_records,
)
from jbodlab.metadata.records.control_records import CONTROL_TYPES, ControlRecord
from jbodlab.metadata.records.schema import Record

_MODULES = (cluster_records, config_records, security_records, topic_records)

RECORD_TYPES: Mapping[int, type[Record]] = MappingProxyType(
    {
        cls.API_KEY: cls
        for module in _MODULES
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, Record) and cls is not Record
    }
)
"""Every type that Kafka 4.4 knows, by the number in the envelope; 6, 13 and 16 are unused."""

BY_NAME: Mapping[str, type[Record] | type[ControlRecord]] = MappingProxyType(
    {cls.NAME: cls for cls in RECORD_TYPES.values()}
    | {cls.NAME: cls for cls in CONTROL_TYPES.values()}
)
"""Data and control records of the metadata log by the names that the dump has for them."""
