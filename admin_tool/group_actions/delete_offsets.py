"""jbod-consumer-groups --delete-offsets."""

from __future__ import annotations

from collections.abc import Mapping

from admin_tool.errors import AdminError, RequestError
from admin_tool.group_actions.selection import expand, read_topic
from admin_tool.group_actions.table import Column, lines
from admin_tool.options import Parsed, timeout_ms
from admin_tool.requests.connection import connected
from admin_tool.requests.group_offsets import delete_offsets
from admin_tool.requests.topics import describe_topics
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition


def run(options: Parsed) -> int:
    """Delete offsets; returns the exit code: 1 if one of them is still there."""
    group = options.required("group")
    wanted = [read_topic(text) for text in options.texts("topic")]
    with connected(options) as connection:
        whole = [topic for topic, indexes in wanted if indexes is None]
        counts = {
            name: [one.index for one in topic.partitions]
            for name, topic in describe_topics(connection, whole).items()
        }
        partitions = expand(wanted, counts)
        try:
            found = delete_offsets(connection, group, partitions, timeout_ms(options))
        except RequestError as error:
            raise AdminError(refusal(group, error)) from error
    failed = any(found.values())
    if failed:
        print("\nError: Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    print("\n" + "\n".join(table(found)))
    return int(failed)


def refusal(group: str, error: RequestError) -> str:
    """Return why no offset of a group is deleted."""
    if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"Consumer group '{group}' does not exist."
    return f"offsets of group '{group}' cannot be deleted: {error}"


def table(found: Mapping[TopicPartition, RequestError | None]) -> list[str]:
    """Return what became of each partition."""
    columns = [
        Column(title="TOPIC", grows=True),
        Column(title="PARTITION", width=10),
        Column(title="STATUS"),
    ]
    return lines(
        columns,
        [
            [one.topic, one.partition, "Successful" if error is None else f"Error: {error}"]
            for one, error in sorted(found.items())
        ],
    )
