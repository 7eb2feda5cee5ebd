"""Connections whose request may start in a turn of the loop; the test moves clock and loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from jbodlab.server.fair_turns import FairTurns
from jbodlab.vocabulary.limits import TURN_SHARE_S


class Turns:
    """A loop of one callback, and a clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.soon: list[Callable[[], None]] = []
        self.fair = FairTurns(cast(Any, self), lambda: self.now_s)
        self.done: list[str] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def next(self) -> None:
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


class Asking:
    """Has requests that take some time each, and starts what it may."""

    def __init__(
        self, turns: Turns, name: str, count: int, each_s: float = TURN_SHARE_S * 1.1
    ) -> None:
        self.turns, self.name, self.left, self.each_s = turns, name, count, each_s

    def pump(self) -> None:
        while self.left and self.turns.fair.may_start(self.pump):
            self.left -= 1
            self.turns.done.append(self.name)
            self.turns.now_s += self.each_s
            self.turns.fair.has_started()


def test_requests_start_at_once_while_there_is_time() -> None:
    turns = Turns()
    Asking(turns, "a", 3, TURN_SHARE_S / 8).pump()
    Asking(turns, "b", 3, TURN_SHARE_S / 8).pump()

    assert "".join(turns.done) == "aaabbb"


def test_single_requests_seldom_wait_for_a_turn_of_the_loop() -> None:
    turns = Turns()
    for _ in range(7):
        Asking(turns, "a", 1, TURN_SHARE_S / 16).pump()
        turns.now_s += 1.0

    assert not turns.soon
    Asking(turns, "a", 1, TURN_SHARE_S / 16).pump()
    assert len(turns.soon) == 1


def test_every_turn_has_its_own_time() -> None:
    turns = Turns()
    for name in "abc":
        Asking(turns, name, 1).pump()
        turns.next()

    assert "".join(turns.done) == "abc"


def test_who_finds_the_time_used_up_starts_in_a_later_turn_in_the_order_of_coming() -> None:
    turns = Turns()
    for name in "abc":
        Asking(turns, name, 1).pump()

    assert "".join(turns.done) == "a"
    turns.next()
    assert "".join(turns.done) == "ab"
    turns.next()
    assert "".join(turns.done) == "abc"


def test_who_is_first_in_line_starts_one_request_and_goes_to_the_end() -> None:
    turns = Turns()
    for name in "abc":
        Asking(turns, name, 3, TURN_SHARE_S * 0.6).pump()
    assert "".join(turns.done) == "aa"

    for _ in range(4):
        turns.next()

    # Two fit into a turn.
    assert "".join(turns.done) == "aaabcbcbc"


def test_who_comes_while_others_are_in_line_stands_behind_them() -> None:
    turns = Turns()
    Asking(turns, "a", 2).pump()
    turns.soon.clear()
    late = Asking(turns, "b", 1)
    late.pump()
    late.pump()
    turns.fair._next_turn()

    assert "".join(turns.done) == "aa"
    turns.next()
    assert "".join(turns.done) == "aab"
    turns.next()
    assert "".join(turns.done) == "aab"


def test_one_that_has_nothing_left_takes_no_turn_from_the_others() -> None:
    turns = Turns()
    asking = [Asking(turns, name, 1) for name in "abc"]
    for each in asking:
        each.pump()
    asking[1].left = 0

    turns.next()

    assert "".join(turns.done) == "ac"


def test_one_that_fails_holds_nobody_up() -> None:
    turns = Turns()
    Asking(turns, "a", 1).pump()

    def fail() -> None:
        raise ZeroDivisionError

    assert not turns.fair.may_start(fail)
    Asking(turns, "b", 1).pump()
    with pytest.raises(ZeroDivisionError):
        turns.next()
    assert not turns.fair.may_start(fail)

    turns.next()

    assert "".join(turns.done) == "ab"
