"""Which topics a command is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from admin_tool.errors import AdminError
from admin_tool.requests.topics import TopicListing


def pattern(text: str) -> re.Pattern[str]:
    """Read the value of `--topic`: a regular expression; a comma means "or".

    Raises:
        AdminError: it is no regular expression.
    """
    cleaned = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(cleaned)
    except re.error as error:
        raise AdminError(f"{cleaned} is an invalid regex: {error}") from error


def select(
    topics: Iterable[TopicListing], wanted: str | None, *, exclude_internal: bool
) -> list[str]:
    """Return the names of the topics that a command is about, in their order."""
    matches = None if wanted is None else pattern(wanted)
    return [
        topic.name
        for topic in topics
        if (matches is None or matches.fullmatch(topic.name))
        and not (exclude_internal and topic.is_internal)
    ]


def expect(found: Sequence[str], wanted: str | None, *, must_exist: bool) -> None:
    """Insist that there are topics.

    Raises:
        AdminError: topics were asked for, and there are none.
    """
    if not found and wanted is not None and must_exist:
        raise AdminError(f"Topic '{wanted}' does not exist as expected")
