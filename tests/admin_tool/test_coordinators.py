"""Asking coordinators again while they move, and no more often than that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from admin_tool.errors import RequestError
from admin_tool.requests import coordinators
from admin_tool.requests.connection import Connection
from admin_tool.requests.coordinators import each_group
from jbodlab.error_code import ErrorCode

WAIT_MS = 60_000


class Cluster:
    """Says in turn, for each question, which broker coordinates a group."""

    def __init__(self, **answers: Sequence[int | ErrorCode]) -> None:
        self._answers: dict[str, Iterator[int | ErrorCode]] = {
            group: iter(found) for group, found in answers.items()
        }

    def call(self, request: Any, broker: int | None = None) -> Any:
        assert broker is None
        return SimpleNamespace(coordinators=[self._one(key) for key in request.coordinator_keys])

    def _one(self, group: str) -> SimpleNamespace:
        found = next(self._answers[group])
        code = found if isinstance(found, ErrorCode) else 0
        return SimpleNamespace(key=group, error_code=code, error_message=None, node_id=found)


def connection(**answers: Sequence[int | ErrorCode]) -> Connection:
    return cast("Connection", Cluster(**answers))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinators, "RETRY_PAUSE_S", 0)


def test_an_answer_without_a_value_is_one() -> None:
    asked: list[tuple[int, list[str]]] = []

    def ask(broker: int, names: list[str]) -> dict[str, None]:
        asked.append((broker, names))
        return dict.fromkeys(names)

    found = each_group(connection(a=[1], b=[2], c=[1]), ["a", "b", "c", "a"], WAIT_MS, ask)

    assert found == {"a": None, "b": None, "c": None}
    assert asked == [(1, ["a", "c"]), (2, ["b"])]


def test_only_a_group_whose_coordinator_moves_is_asked_for_again() -> None:
    asked: list[tuple[int, list[str]]] = []
    not_here = RequestError(ErrorCode.NOT_COORDINATOR)

    def ask(broker: int, names: list[str]) -> dict[str, int | RequestError]:
        asked.append((broker, names))
        return {name: not_here if (broker, name) == (1, "b") else broker for name in names}

    loading = ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = each_group(connection(a=[1], b=[1, loading, 3]), ["a", "b"], WAIT_MS, ask)

    assert found == {"a": 1, "b": 3}
    assert asked == [(1, ["a", "b"]), (3, ["b"])]


def test_at_the_deadline_a_group_has_its_error_and_the_others_their_answers() -> None:
    gone = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    refused = RequestError(ErrorCode.NON_EMPTY_GROUP)

    found = each_group(
        connection(a=[1], b=gone),
        ["a", "b"],
        -1,
        lambda _, names: dict.fromkeys(names, refused),
    )

    assert found["a"] is refused
    assert isinstance(found["b"], RequestError)
    assert found["b"].code == ErrorCode.COORDINATOR_NOT_AVAILABLE
