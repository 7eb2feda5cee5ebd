"""The keys of the APIs; a command's help is there before any codec is made."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

NEVER_FLEXIBLE = 1 << 15
"""Of an API whose versions have no tagged fields yet."""


class ApiKey(IntEnum):
    """The API keys in use, under Kafka's names, and since which version bodies are flexible."""

    def __new__(cls, key: int, flexible_from: int = NEVER_FLEXIBLE) -> Self:
        """Make a member; `flexible_from` is a fact of the protocol."""
        member = int.__new__(cls, key)
        member._value_ = key
        member._flexible_from = flexible_from
        return member

    _flexible_from: int

    PRODUCE = 0, 9
    FETCH = 1, 12
    LIST_OFFSETS = 2, 6
    METADATA = 3, 9
    OFFSET_COMMIT = 8, 8
    OFFSET_FETCH = 9, 6
    FIND_COORDINATOR = 10, 3
    JOIN_GROUP = 11, 6
    HEARTBEAT = 12, 4
    LEAVE_GROUP = 13, 4
    SYNC_GROUP = 14, 4
    DESCRIBE_GROUPS = 15, 5
    LIST_GROUPS = 16, 3
    SASL_HANDSHAKE = 17, NEVER_FLEXIBLE
    API_VERSIONS = 18, 3
    CREATE_TOPICS = 19, 5
    DELETE_TOPICS = 20, 4
    DELETE_RECORDS = 21, 2
    INIT_PRODUCER_ID = 22, 2
    OFFSET_FOR_LEADER_EPOCH = 23, 4
    ADD_PARTITIONS_TO_TXN = 24, 3
    ADD_OFFSETS_TO_TXN = 25, 3
    END_TXN = 26, 3
    WRITE_TXN_MARKERS = 27, 1
    TXN_OFFSET_COMMIT = 28, 3
    DESCRIBE_ACLS = 29, 2
    CREATE_ACLS = 30, 2
    DELETE_ACLS = 31, 2
    DESCRIBE_CONFIGS = 32, 4
    ALTER_CONFIGS = 33, 2
    ALTER_REPLICA_LOG_DIRS = 34, 2
    DESCRIBE_LOG_DIRS = 35, 2
    SASL_AUTHENTICATE = 36, 2
    CREATE_PARTITIONS = 37, 2
    DELETE_GROUPS = 42, 2
    ELECT_LEADERS = 43, 2
    INCREMENTAL_ALTER_CONFIGS = 44, 1
    ALTER_PARTITION_REASSIGNMENTS = 45, 0
    LIST_PARTITION_REASSIGNMENTS = 46, 0
    OFFSET_DELETE = 47, NEVER_FLEXIBLE
    DESCRIBE_CLIENT_QUOTAS = 48, 1
    ALTER_CLIENT_QUOTAS = 49, 1
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50, 0
    ALTER_USER_SCRAM_CREDENTIALS = 51, 0
    VOTE = 52, 0
    BEGIN_QUORUM_EPOCH = 53, 1
    END_QUORUM_EPOCH = 54, 1
    DESCRIBE_QUORUM = 55, 0
    UPDATE_FEATURES = 57, 0
    FETCH_SNAPSHOT = 59, 0
    DESCRIBE_CLUSTER = 60, 0
    DESCRIBE_PRODUCERS = 61, 0
    UNREGISTER_BROKER = 64, 0
    DESCRIBE_TRANSACTIONS = 65, 0
    LIST_TRANSACTIONS = 66, 0
    CONSUMER_GROUP_HEARTBEAT = 68, 0
    CONSUMER_GROUP_DESCRIBE = 69, 0
    CONTROLLER_REGISTRATION = 70, 0
    GET_TELEMETRY_SUBSCRIPTIONS = 71, 0
    PUSH_TELEMETRY = 72, 0
    LIST_CONFIG_RESOURCES = 74, 0
    DESCRIBE_TOPIC_PARTITIONS = 75, 0
    SHARE_GROUP_HEARTBEAT = 76, 0
    ADD_RAFT_VOTER = 80, 0
    REMOVE_RAFT_VOTER = 81, 0
    UPDATE_RAFT_VOTER = 82, 0
    REVIVE_LOG_DIR = 10_000, 0
    """Not one of Kafka's; see `jbodlab.kafka_wire.revive_log_dir`."""
    DESCRIBE_LOG_DIR_STATES = 10_001, 0
    """Not one of Kafka's; see `jbodlab.kafka_wire.describe_log_dir_states`."""


FLEXIBLE_FROM = {int(key): key._flexible_from for key in ApiKey}
"""First version of each API whose bodies are compact and tagged."""


def is_flexible(api_key: int, api_version: int) -> bool:
    """Return whether bodies of this version are compact and tagged; False for unknown APIs."""
    return api_version >= FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE)
