"""Carries jbod-get-offsets out: which partitions it is about, and their offsets."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from admin_tool.errors import AdminError, RequestError
from admin_tool.options import Parsed, comma_list, timeout_ms
from admin_tool.requests.connection import connected
from admin_tool.requests.offsets import list_offsets
from admin_tool.requests.topics import describe_topics, list_topics
from admin_tool.topic_actions.selection import pattern
from jbodlab.ids import TopicPartition

Filter = Callable[[TopicPartition], bool]

_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)-([0-9]*)|([0-9]+)))?")


def run(options: Parsed, timestamp: int) -> int:
    """Print the offsets at a timestamp; returns the exit code."""
    is_wanted = partition_filter(options)
    with connected(options) as connection:
        names = [
            topic.name
            for topic in list_topics(connection)
            if not (options.has("exclude-internal-topics") and topic.is_internal)
        ]
        partitions = sorted(
            one
            for topic in describe_topics(connection, names).values()
            for state in topic.partitions
            if is_wanted(one := TopicPartition(topic.name, state.index))
        )
        if not partitions:
            raise AdminError("Could not match any topic-partitions with the specified filters")
        asked = dict.fromkeys(partitions, timestamp)
        found = list_offsets(connection, asked, timeout_ms(options))
    for one, answer in found.items():
        if isinstance(answer, RequestError):
            reason = f"Skip getting offsets for topic-partition {one} due to error: {answer}"
            print(reason, file=sys.stderr)
        elif answer.offset >= 0:
            # Otherwise no record is so late.
            print(f"{one.topic}:{one.partition}:{answer.offset}")
    return 0


def partition_filter(options: Parsed) -> Filter:
    """Return which partitions the command line names.

    Raises:
        AdminError: a pattern or a number cannot be read.
    """
    rules = options.text("topic-partitions")
    if rules is not None:
        filters = [_rule(text) for text in comma_list(rules)]
        return lambda one: any(each(one) for each in filters)
    topic = pattern(options.text("topic") or ".*")
    numbers = _numbers(options.text("partitions"))
    return lambda one: (
        topic.fullmatch(one.topic) is not None and (not numbers or one.partition in numbers)
    )


def _rule(text: str) -> Filter:
    match = _RULE.fullmatch(text)
    if match is None:
        raise AdminError(f"Invalid rule specification: {text}")
    topic, first, end, only = match.groups()
    matches = pattern(topic or ".*")
    lowest = int(only or first or 0)
    # The end of a range is not in it.
    beyond = lowest + 1 if only else int(end) if end else None
    return lambda one: (
        matches.fullmatch(one.topic) is not None
        and one.partition >= lowest
        and (beyond is None or one.partition < beyond)
    )


def _numbers(text: str | None) -> frozenset[int]:
    parts = comma_list(text)
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise AdminError(
            "--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {text}"
        )
    return frozenset(map(int, parts))
