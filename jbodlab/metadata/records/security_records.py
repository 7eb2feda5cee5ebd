"""Records about access control, SCRAM credentials and delegation tokens.

They are kept and written back; nothing here is enforced by this project. Fields are those of
Kafka's message schemas of the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from jbodlab.kafka_wire.kinds import BYTES, INT8, INT32, INT64, STRING, UUID_KIND, array
from jbodlab.kafka_wire.schema import wire
from jbodlab.metadata.records.schema import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord(Record):
    """One access control entry."""

    API_KEY: ClassVar[int] = 18
    NAME: ClassVar[str] = "ACCESS_CONTROL_ENTRY_RECORD"

    id: UUID = wire(UUID_KIND)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord(Record):
    """An access control entry is removed."""

    API_KEY: ClassVar[int] = 19
    NAME: ClassVar[str] = "REMOVE_ACCESS_CONTROL_ENTRY_RECORD"

    id: UUID = wire(UUID_KIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord(Record):
    """A user's credential for one SCRAM mechanism."""

    API_KEY: ClassVar[int] = 11
    NAME: ClassVar[str] = "USER_SCRAM_CREDENTIAL_RECORD"

    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    salt: bytes = wire(BYTES)
    stored_key: bytes = wire(BYTES)
    server_key: bytes = wire(BYTES)
    iterations: int = wire(INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord(Record):
    """A user's credential for one SCRAM mechanism is removed."""

    API_KEY: ClassVar[int] = 22
    NAME: ClassVar[str] = "REMOVE_USER_SCRAM_CREDENTIAL_RECORD"

    name: str = wire(STRING)
    mechanism: int = wire(INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord(Record):
    """A delegation token; timestamps in ms."""

    API_KEY: ClassVar[int] = 10
    NAME: ClassVar[str] = "DELEGATION_TOKEN_RECORD"

    owner: str = wire(STRING)
    requester: str = wire(STRING)
    renewers: tuple[str, ...] = wire(array(STRING))
    issue_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    expiration_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord(Record):
    """A delegation token is removed."""

    API_KEY: ClassVar[int] = 26
    NAME: ClassVar[str] = "REMOVE_DELEGATION_TOKEN_RECORD"

    token_id: str = wire(STRING)
