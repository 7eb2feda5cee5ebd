"""Which groups and partitions a command is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from admin_tool.errors import AdminError
from admin_tool.options import Parsed, timeout_ms
from admin_tool.requests.connection import Connection
from admin_tool.requests.groups import list_groups
from jbodlab.ids import TopicPartition


def groups_of(connection: Connection, options: Parsed) -> list[str]:
    """Return the ids of the groups that the command line names, or of all."""
    if options.has("all-groups"):
        return [one.group_id for one in list_groups(connection, timeout_ms(options))]
    return list(dict.fromkeys(options.texts("group")))


def read_topic(text: str) -> tuple[str, tuple[int, ...] | None]:
    """Read a value of `--topic`: `topic`, or `topic:0,1`; None stands for all partitions.

    Raises:
        AdminError: it is neither.
    """
    topic, colon, listed = text.partition(":")
    if not topic or (colon and not listed):
        raise AdminError(f"Invalid topic arg '{text}', expected topic name and partitions")
    if not colon:
        return topic, None
    indexes = []
    for part in listed.split(","):
        if not (part.isascii() and part.isdecimal()):
            raise AdminError(f"Invalid partition '{part}' specified in topic arg '{text}'")
        indexes.append(int(part))
    return topic, tuple(indexes)


def expand(
    wanted: Iterable[tuple[str, tuple[int, ...] | None]], counts: Mapping[str, Iterable[int]]
) -> list[TopicPartition]:
    """Return the partitions that values of `--topic` name, in their order.

    Args:
        wanted: The values, read.
        counts: The partitions of the topics that exist.

    Raises:
        AdminError: all partitions are wanted of a topic that does not exist.
    """
    found: dict[TopicPartition, None] = {}
    for topic, named in wanted:
        indexes: Iterable[int]
        if named is not None:
            indexes = named
        elif topic in counts:
            indexes = counts[topic]
        else:
            raise AdminError(f"Topic '{topic}' does not exist")
        found |= dict.fromkeys(TopicPartition(topic, index) for index in indexes)
    return list(found)
