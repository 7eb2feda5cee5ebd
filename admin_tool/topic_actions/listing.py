"""jbod-topics --list."""

from __future__ import annotations

from admin_tool.options import Parsed
from admin_tool.requests import topics
from admin_tool.requests.connection import connected
from admin_tool.topic_actions.selection import select


def run(options: Parsed) -> int:
    """Print the names of the topics; returns the exit code."""
    with connected(options) as connection:
        found = topics.list_topics(connection)
    exclude_internal = options.has("exclude-internal")
    for name in select(found, options.text("topic"), exclude_internal=exclude_internal):
        print(name)
    return 0
