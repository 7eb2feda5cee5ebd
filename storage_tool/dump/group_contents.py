"""Records of `__consumer_offsets` as Kafka's dump tool prints them.

For a consumer group, the subscription and assignment of the members, which are bytes in the record,
are decoded as well.
"""

from __future__ import annotations

from typing import Any

from jbodlab.group_records import consumer_protocol
from jbodlab.group_records.consumer_protocol import (
    HIGHEST_VERSION,
    ConsumerProtocol,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from jbodlab.group_records.records import decode
from jbodlab.group_records.values import GroupMetadataValue
from jbodlab.metadata.records.json_text import JsonValue, to_json
from jbodlab.vocabulary.errors import DecodeError
from storage_tool.dump.coordinator_contents import CoordinatorContents

CONSUMER = "consumer"


class GroupContents(CoordinatorContents):
    """Records of `__consumer_offsets`."""

    def __init__(self) -> None:
        super().__init__(decode)

    def data_json(self, value: Any, version: int) -> dict[str, JsonValue]:
        """Return the fields of a value, with those of the members of a consumer group."""
        data = to_json(value, version)
        if isinstance(value, GroupMetadataValue) and value.protocol_type == CONSUMER:
            data["members"] = [
                to_json(member, version)
                | _protocol("subscription", ConsumerProtocolSubscription, member.subscription)
                | _protocol("assignment", ConsumerProtocolAssignment, member.assignment)
                for member in value.members
            ]
        return data


def _protocol(name: str, cls: type[ConsumerProtocol], data: bytes) -> dict[str, JsonValue]:
    """Return a field of a member as JSON; empty if it has not the form that consumers send."""
    try:
        found, version = consumer_protocol.decode(cls, data)
    except DecodeError:
        return {}
    return {name: to_json(found, version)} if version <= HIGHEST_VERSION else {}
