"""Asking the coordinators of groups, each for its own, again and again while they move or load.

A coordinator that loads, or that is not known yet, keeps nobody else waiting: what is known of the
other groups stays known, and at the deadline the group has its error as its result.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from admin_tool.errors import RequestError, UnsupportedRequestError
from admin_tool.requests.connection import Connection
from jbodlab.error_code import ErrorCode

RETRY_PAUSE_S = 0.1
RETRIABLE = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)

T = TypeVar("T")
Answers = Mapping[str, T | RequestError]
Ask = Callable[[int, list[str]], Answers[T]]
"""Asks a coordinator for some of its groups."""


def each_group(
    connection: Connection, groups: Iterable[str], timeout_ms: int, ask: Ask[T]
) -> dict[str, T | RequestError]:
    """Return the answer for each group, in the order in which they were named.

    Args:
        connection: The cluster.
        groups: Their ids.
        timeout_ms: How long errors that pass are tried again.
        ask: The question.
    """
    names = list(dict.fromkeys(groups))
    deadline = time.monotonic() + timeout_ms / 1000
    found: dict[str, T | RequestError] = {}
    open_names = names
    while open_names:
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        for name, coordinator in find_coordinators(connection, open_names).items():
            if isinstance(coordinator, RequestError):
                found[name] = coordinator
            else:
                by_coordinator[coordinator].append(name)
        for coordinator, its_names in by_coordinator.items():
            found.update(ask(coordinator, its_names))
        open_names = [name for name in names if name not in found or _passes(found[name])]
        if time.monotonic() > deadline:
            break
        if open_names:
            time.sleep(RETRY_PAUSE_S)
    return {name: found[name] for name in names}


def one_group(connection: Connection, group: str, timeout_ms: int, ask: Ask[T]) -> T:
    """Return the answer for one group.

    Raises:
        RequestError: there is none.
    """
    answer = each_group(connection, [group], timeout_ms, ask)[group]
    if isinstance(answer, RequestError):
        raise answer
    return answer


def find_coordinators(connection: Connection, groups: list[str]) -> dict[str, int | RequestError]:
    """Return the broker that coordinates each group, or why none does."""
    from kafka.protocol.metadata import FindCoordinatorRequest  # type: ignore[import-untyped]

    found: dict[str, int | RequestError] = {}
    try:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups, min_version=4)
        for one in connection.call(request).coordinators:
            found[one.key] = _coordinator(one.error_code, one.error_message, one.node_id)
    except UnsupportedRequestError:
        # Before KIP-699 each group is a request of its own.
        for group in groups:
            one = connection.call(FindCoordinatorRequest(key=group, key_type=0, max_version=3))
            found[group] = _coordinator(one.error_code, one.error_message, one.node_id)
    return found


def _coordinator(code: int, message: str | None, node: int) -> int | RequestError:
    return RequestError(code, message) if code else node


def _passes(answer: object) -> bool:
    return isinstance(answer, RequestError) and answer.code in RETRIABLE
