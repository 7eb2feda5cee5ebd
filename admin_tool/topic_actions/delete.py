"""jbod-topics --delete."""

from __future__ import annotations

from admin_tool.options import Parsed
from admin_tool.requests import topics
from admin_tool.requests.connection import connected
from admin_tool.topic_actions.selection import expect, select


def run(options: Parsed) -> int:
    """Delete the topics that match; returns the exit code."""
    wanted = options.required("topic")
    with connected(options) as connection:
        found = select(topics.list_topics(connection), wanted, exclude_internal=False)
        expect(found, wanted, must_exist=not options.has("if-exists"))
        if found:
            topics.delete_topics(connection, found)
    return 0
