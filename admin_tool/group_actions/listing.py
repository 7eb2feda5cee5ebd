"""jbod-consumer-groups --list."""

from __future__ import annotations

from collections.abc import Iterable

from admin_tool.errors import UsageError
from admin_tool.options import Parsed, comma_list, timeout_ms
from admin_tool.requests.connection import connected
from admin_tool.requests.groups import GroupListing, list_groups

STATES = (
    *("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    *("Assigning", "Reconciling"),
)
TYPES = ("Classic", "Consumer")
NAME_WIDTH_MIN, NAME_PADDING, WIDTH = 15, 10, 20


def run(options: Parsed) -> int:
    """List groups; returns the exit code."""
    states = read_names(options.text("state"), STATES, "state")
    types = read_names(options.text("type"), TYPES, "type")
    with connected(options) as connection:
        found = list_groups(connection, timeout_ms(options))
    chosen = [
        one
        for one in found
        if (not states or one.state in states) and (not types or one.type in types)
    ]
    shown = listing(chosen, with_type=options.has("type"), with_state=options.has("state"))
    print("".join(f"{line}\n" for line in shown), end="")
    return 0


def read_names(text: str | None, known: Iterable[str], what: str) -> frozenset[str]:
    """Return Kafka's names of states or types, however they are written.

    Raises:
        UsageError: one is unknown.
    """
    by_key = {name.lower(): name for name in known}
    found = set()
    for part in comma_list(text):
        name = by_key.get(part.lower().replace("_", "").replace("-", ""))
        if name is None:
            raise UsageError(
                f"Invalid {what} list '{text}'. Valid {what}s are: {', '.join(by_key.values())}"
            )
        found.add(name)
    return frozenset(found)


def listing(groups: list[GroupListing], *, with_type: bool, with_state: bool) -> list[str]:
    """Return the ids, or a table with more where more is asked for."""
    if not with_type and not with_state:
        return [one.group_id for one in groups]
    rows = [["GROUP", "TYPE", "STATE"], *([one.group_id, one.type, one.state] for one in groups)]
    width = max([NAME_WIDTH_MIN, *(len(one.group_id) for one in groups)]) + NAME_PADDING
    return [
        name.ljust(width)
        + (f" {kind:<{WIDTH}}" if with_type else "")
        + (f" {state:<{WIDTH}}" if with_state else "")
        for name, kind, state in rows
    ]
