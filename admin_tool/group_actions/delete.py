"""jbod-consumer-groups --delete."""

from __future__ import annotations

from admin_tool.errors import RequestError
from admin_tool.group_actions.selection import groups_of
from admin_tool.options import Parsed, timeout_ms
from admin_tool.requests.connection import connected
from admin_tool.requests.groups import delete_groups


def run(options: Parsed) -> int:
    """Delete groups; returns the exit code: 1 if one of them is still there."""
    with connected(options) as connection:
        found = delete_groups(connection, groups_of(connection, options), timeout_ms(options))
    print("\n".join(outcome(found)))
    return int(any(found.values()))


def outcome(found: dict[str, RequestError | None]) -> list[str]:
    """Return what is said of groups that are deleted, and of others with their errors."""
    deleted = ", ".join(f"'{name}'" for name, error in found.items() if error is None)
    if not any(found.values()):
        return [f"Deletion of requested consumer groups ({deleted}) was successful."]
    lines = ["", "Error: Deletion of some consumer groups failed:"]
    lines += [
        f"* Group '{name}' could not be deleted due to: {error}"
        for name, error in found.items()
        if error is not None
    ]
    if deleted:
        lines += ["", f"These consumer groups were deleted successfully: {deleted}"]
    return lines
