"""Which topics a command is about: names, or an expression."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Sequence

from admin_tool.errors import unknown
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.topics import TopicListing


def expression(text: str) -> re.Pattern[str]:
    """Return a regular expression, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise ArgumentTypeError(f"invalid expression {text!r}: {error}") from error


def check(options: Namespace, *, needs_one: bool) -> None:
    """Refuse names beside an expression and, where topics must be named, neither of them.

    Raises:
        UsageError: the call is wrong.
    """
    if options.topics and options.matching:
        raise UsageError("TOPIC and --matching exclude each other")
    if needs_one and not options.topics and not options.matching:
        raise UsageError("missing TOPIC or --matching")


def select(
    listed: Sequence[TopicListing],
    names: Sequence[str],
    matching: re.Pattern[str] | None,
    *,
    may_miss: bool = False,
) -> list[str]:
    """Return the names of topics, in order.

    Args:
        listed: All topics of the cluster.
        names: Those that were named; with neither names nor an expression all topics are meant.
        matching: An expression, which never matches internal topics.
        may_miss: Whether names of topics that do not exist are left out.

    Raises:
        AdminError: a named topic does not exist, or the expression matches none.
    """
    if matching is not None:
        found = [one.name for one in listed if matching.fullmatch(one.name) and not one.is_internal]
        if not found and not may_miss:
            raise AdminError(f"no topic matches {matching.pattern!r}")
        return found
    known = [one.name for one in listed]
    missing = [name for name in names if name not in known]
    if missing and not may_miss:
        raise unknown("topic", missing[0], known)
    return [name for name in known if name in names or not names]
