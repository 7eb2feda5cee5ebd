"""A wait that runs out says what it waited for, and what the witnesses saw."""

from __future__ import annotations

from weakref import WeakValueDictionary

import pytest

from lab.machine import waiting
from lab.machine.waiting import NotInTimeError, wait_for


class Another:
    """Somebody who is there only since one is asked, as in another thread."""

    def __init__(self) -> None:
        self.added: list[Node] = []

    def last_words(self) -> str:
        self.added.append(Node())
        waiting.witnesses[id(self.added[-1])] = self.added[-1]
        return "--- broker 2: no word"


class Node:
    """Somebody who can tell what was going on."""

    def last_words(self) -> str:
        return "--- broker 1: disk on fire"


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    # Clusters that other tests share may be open in this process.
    monkeypatch.setattr(waiting, "witnesses", WeakValueDictionary({id(node): node}))
    return node


def test_witnesses_may_come_while_they_are_asked(witness: Node) -> None:
    another = Another()
    waiting.witnesses[id(another)] = another

    with pytest.raises(NotInTimeError, match="no word"):
        wait_for("a leader of t-0", lambda: False, 0)


def test_the_value_of_the_condition_is_returned() -> None:
    answers = iter([None, [], "found"])

    assert wait_for("something", lambda: next(answers)) == "found"


def test_what_runs_out_names_what_was_waited_for_and_what_was_seen_last(witness: Node) -> None:
    with pytest.raises(NotInTimeError) as raised:
        wait_for("a leader of t-0", lambda: False, 0, last_seen=lambda: {0: -1})

    assert str(raised.value).splitlines() == [
        "a leader of t-0 did not happen within 0 s",
        "last seen: {0: -1}",
        witness.last_words(),
    ]


def test_an_error_of_the_condition_is_not_swallowed() -> None:
    def broken() -> bool:
        raise ValueError("no such topic")

    with pytest.raises(ValueError, match="no such topic"):
        wait_for("a leader", broken)
