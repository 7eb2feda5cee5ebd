"""Where the wire and the values of `requests` differ; everything else follows from names.

A field of a value is the field of the same name in its message. What a value has flat is often
grouped on the wire, by topic as a rule; null is a flag where Protocol Buffers have no null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jbodlab.controller_api import requests as values
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch

NAMES = {
    "changes": ("configs",),
    "diverging_end_offset": ("diverging",),
    "leader": ("leader_id",),
    "new_isr": ("new_isr_with_epochs",),
    "operation": ("config_operation",),
    "partition": ("partition_index", "partition_id"),
}
"""Names of a value's field on the wire, where it is not its own; the first that the message has."""

NOT_IN_VALUES = frozenset({"throttle_time_ms"})
"""Fields of messages that nobody sets and nobody reads."""

NOT_ON_THE_WIRE = frozenset({("AlterConfigsRequest.Config", "operation")})
"""Fields of values that a message lacks; they have their default then."""

ABSENT = {BrokerEpoch: UNKNOWN_BROKER_EPOCH}
"""What an absent field of a type stands for; of other types, what is the default of the value."""


class Level(NamedTuple):
    """A list of messages, each of which holds what has the same key.

    Attributes:
        messages: Name of the list.
        key: Name of the key in the messages.
        member: The key in a value: the name of its field, or its place in a tuple.
    """

    messages: str
    key: str
    member: str | int


class Grouped(NamedTuple):
    """How a flat list of values is grouped; `rows` is the name of the innermost list."""

    levels: tuple[Level, ...]
    rows: str


_BY_TOPIC_ID = Level("topics", "topic_id", "topic_id")
_BY_DIRECTORY = Grouped((Level("directories", "id", "directory"), _BY_TOPIC_ID), "partitions")
_BY_NAME = Level("topics", "name", "topic")

GROUPED: Mapping[tuple[type, str], Grouped] = {
    (values.AssignReplicasToDirsRequest, "assignments"): _BY_DIRECTORY,
    (values.AssignReplicasToDirsResponse, "results"): _BY_DIRECTORY,
    (values.AlterPartitionRequest, "changes"): Grouped((_BY_TOPIC_ID,), "partitions"),
    (values.AlterPartitionResponse, "results"): Grouped((_BY_TOPIC_ID,), "partitions"),
    (values.ElectLeadersRequest, "topic_partitions"): Grouped(
        (Level("topic_partitions", "topic", 0),), "partitions"
    ),
    (values.ElectLeadersResponse, "results"): Grouped(
        (Level("replica_election_results", "topic", "topic"),), "partition_result"
    ),
    (values.AlterPartitionReassignmentsRequest, "partitions"): Grouped((_BY_NAME,), "partitions"),
    (values.AlterPartitionReassignmentsResponse, "results"): Grouped(
        (Level("responses", "name", "topic"),), "partitions"
    ),
    (values.ListPartitionReassignmentsRequest, "topic_partitions"): Grouped(
        (Level("topics", "name", 0),), "partition_indexes"
    ),
    (values.ListPartitionReassignmentsResponse, "reassignments"): Grouped(
        (_BY_NAME,), "partitions"
    ),
}

WITHOUT_ROWS = {(values.ElectLeadersResponse, "settled_topics"): "results"}
"""Keys of groups without any row, in a field of their own, to the field with the rows."""

FLAGS: Mapping[tuple[type, str], tuple[str, bool]] = {
    (values.BrokerRegistrationRequest, "cordoned_log_dirs"): ("knows_cordoned_log_dirs", False),
    (values.BrokerHeartbeatRequest, "cordoned_log_dirs"): ("knows_cordoned_log_dirs", False),
    (values.ElectLeadersRequest, "topic_partitions"): ("all_partitions", True),
    (values.ListPartitionReassignmentsRequest, "topic_partitions"): ("all_partitions", True),
    (values.PartitionToReassign, "replicas"): ("cancel", True),
}
"""Lists that may be null, the flag that says so, and what it is then; without one null is empty."""
