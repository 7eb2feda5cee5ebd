"""What a replay follows of brokers, settings, features and controllers: few keys, few records.

    b/<broker>             registration, sessions, log directories
    c/<kind>/<name>        settings of one resource, such as c/topic/orders
    f/<feature>            level of one feature
    e/<epoch>              controller of one epoch
    a/                     access control entries
    s/<user>               passwords of one user

Whoever brings the records together gives the end of a topic to its settings as well, since a
RemoveTopicRecord names the topic by its id only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.rare.broker_registration import BrokerFold
from analytics.rare.key_history import KeyFold, Row
from analytics.rare.rights import AclFold, ScramFold
from analytics.rare.settings import (
    ConfigFold,
    EpochFold,
    FeatureFold,
    resource_type,
)
from analytics.tables.catalog import (
    ACLS,
    BROKER_HISTORY,
    BROKER_SESSIONS,
    CONFIGS,
    FEATURES,
    LOG_DIRS,
    SCRAM_USERS,
)
from analytics.tables.table import INT, LONG, VALID_FROM, VALID_TO, columns, fields
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import ConfigRecord, FeatureLevelRecord
from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
)
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

TYPES = (
    RegisterBrokerRecord.NAME,
    BrokerRegistrationChangeRecord.NAME,
    FenceBrokerRecord.NAME,
    UnfenceBrokerRecord.NAME,
    UnregisterBrokerRecord.NAME,
    ConfigRecord.NAME,
    FeatureLevelRecord.NAME,
    LeaderChangeMessage.NAME,
    KRaftVersionRecord.NAME,
    AccessControlEntryRecord.NAME,
    RemoveAccessControlEntryRecord.NAME,
    UserScramCredentialRecord.NAME,
    RemoveUserScramCredentialRecord.NAME,
)
"""Record types that these folds take, besides RemoveTopicRecord."""

ALL_ACLS = "a/"
"""Key of the access control entries."""

_INTERNAL = [pa.field("batch_last_offset", LONG)]
KINDS: Mapping[str, pa.StructType] = MappingProxyType(
    {
        "broker": pa.struct([*BROKER_HISTORY.schema, *_INTERNAL]),
        "log_dir": pa.struct([*LOG_DIRS.schema, *_INTERNAL]),
        "broker_session": pa.struct([*BROKER_SESSIONS.schema, *_INTERNAL]),
        "config": pa.struct([*CONFIGS.schema, *_INTERNAL]),
        "feature": pa.struct([*FEATURES.schema, *_INTERNAL]),
        "acl": pa.struct([*ACLS.schema, *_INTERNAL]),
        "scram_user": pa.struct([*SCRAM_USERS.schema, *_INTERNAL]),
        "controller_epoch": pa.struct(
            [
                *(pa.field(name, INT) for name in ("epoch", "controller")),
                *fields(columns(VALID_FROM + VALID_TO)),
                *_INTERNAL,
            ]
        ),
    }
)
"""Kinds of rows that the folds give, with their columns."""


class EpochPart(NamedTuple):
    """What one stretch of the log holds of one epoch; times are microseconds since 1970."""

    epoch: int
    first_offset: int
    first_time: int | None
    records: int


def config_key(type_code: int, name: str) -> str:
    """Return the key of what is set for a resource."""
    return f"c/{resource_type(type_code)}/{name}"


def make_small_fold(key: str) -> KeyFold:
    """Return the fold of a key, without any state."""
    family, rest = key.split("/", 1)
    match family:
        case "b":
            return BrokerFold(int(rest))
        case "c":
            kind, name = rest.split("/", 1)
            return ConfigFold(kind, name)
        case "f":
            return FeatureFold(rest)
        case "e":
            return EpochFold(int(rest))
        case "a":
            return AclFold()
        case "s":
            return ScramFold(rest)
        case _:
            raise AssertionError(f"no fold for {key}")


def controller_epochs(parts: Iterable[EpochPart], controllers: Mapping[int, int]) -> list[Row]:
    """Return the rows of the table of controller epochs.

    Args:
        parts: What the stretches of the log hold; snapshots are no part of it.
        controllers: The controller of each epoch whose LeaderChange record is in the log.
    """
    epochs: dict[int, EpochPart] = {}
    for part in parts:
        known = epochs.get(part.epoch)
        if known is not None:
            first = min(known, part, key=attrgetter("first_offset"))
            part = first._replace(records=known.records + part.records)
        epochs[part.epoch] = part
    ordered = sorted(epochs.values(), key=attrgetter("first_offset"))
    ends: list[EpochPart | None] = [*ordered[1:], None]
    return [
        {
            "epoch": part.epoch,
            "controller": controllers.get(part.epoch),
            "from_offset": part.first_offset,
            "from_time": part.first_time,
            "to_offset": None if end is None else end.first_offset,
            "to_time": None if end is None else end.first_time,
            "records": part.records,
        }
        for part, end in zip(ordered, ends, strict=False)
    ]
