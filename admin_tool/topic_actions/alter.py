"""jbod-topics --alter: more partitions."""

from __future__ import annotations

from admin_tool.errors import UsageError
from admin_tool.options import Parsed
from admin_tool.requests import topics
from admin_tool.requests.connection import connected
from admin_tool.topic_actions.assignment import parse_assignment
from admin_tool.topic_actions.selection import expect, select


def run(options: Parsed) -> int:
    """Give the topics that match more partitions; returns the exit code."""
    wanted = options.required("topic")
    count = options.number("partitions")
    if count is None or count < 1:
        raise UsageError("The partitions must be greater than 0")
    text = options.text("replica-assignment")
    assignment = None if text is None else parse_assignment(text)
    with connected(options) as connection:
        found = select(topics.list_topics(connection), wanted, exclude_internal=False)
        expect(found, wanted, must_exist=not options.has("if-exists"))
        if not found:
            return 0
        added = {}
        if assignment is not None:
            # The list names the brokers of all partitions; those that exist stay where they are.
            described = topics.describe_topics(connection, found)
            added = {name: assignment[len(topic.partitions) :] for name, topic in described.items()}
        topics.create_partitions(connection, dict.fromkeys(found, count), added)
    return 0
