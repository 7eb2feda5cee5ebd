"""Records about access control, SCRAM credentials and delegation tokens.

Fields are those of Kafka's message schemas of the same names. Delegation tokens are kept; they have
no effect.
"""

from uuid import UUID

from jbodlab.kafka_wire.kinds import Int8, Int32, Int64
from jbodlab.kafka_wire.schema import field
from jbodlab.metadata.records.schema import Record


class AccessControlEntryRecord(Record, api_key=18):
    """One access control entry."""

    id: UUID = field("id of the entry")
    resource_type: Int8 = field("code of the resource type, such as 2 topic, 3 group, 4 cluster")
    resource_name: str = field("name of the resource, or * for all")
    pattern_type: Int8 = field("3 the name itself, 4 all names with this prefix")
    principal: str = field("who the entry is for, such as User:alice")
    host: str = field("address that the principal connects from, or * for all")
    operation: Int8 = field("code of the operation, such as 3 READ, 4 WRITE")
    permission_type: Int8 = field("2 DENY, 3 ALLOW")


class RemoveAccessControlEntryRecord(Record, api_key=19):
    """An access control entry is removed."""

    id: UUID = field("id of the entry")


class UserScramCredentialRecord(Record, api_key=11):
    """A user's credential for one SCRAM mechanism."""

    name: str = field("name of the user")
    mechanism: Int8 = field("1 SCRAM-SHA-256, 2 SCRAM-SHA-512")
    salt: bytes = field("random bytes that the password was salted with")
    stored_key: bytes = field("hash of the client key; RFC 5802")
    server_key: bytes = field("key that the server proves itself with; RFC 5802")
    iterations: Int32 = field("how often the password was hashed")


class RemoveUserScramCredentialRecord(Record, api_key=22):
    """A user's credential for one SCRAM mechanism is removed."""

    name: str = field("name of the user")
    mechanism: Int8 = field("1 SCRAM-SHA-256, 2 SCRAM-SHA-512")


class DelegationTokenRecord(Record, api_key=10):
    """A delegation token; timestamps in ms."""

    owner: str = field("principal that the token authenticates")
    requester: str = field("principal that asked for the token")
    renewers: tuple[str, ...] = field("principals that may renew the token")
    issue_timestamp: Int64 = field("when the token was issued, ms since 1970")
    max_timestamp: Int64 = field("when it can be renewed no longer, ms since 1970")
    expiration_timestamp: Int64 = field("when it expires unless renewed, ms since 1970")
    token_id: str = field("id of the token")


class RemoveDelegationTokenRecord(Record, api_key=26):
    """A delegation token is removed."""

    token_id: str = field("id of the token")
