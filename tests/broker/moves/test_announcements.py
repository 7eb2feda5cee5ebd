"""Reports of a move to the controller, and which of its answers count."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast
from uuid import UUID

from broker.moves.announcements import Announcements
from broker.moves.move import Move
from broker.moves.move_states import MoveState
from jbodlab.vocabulary.ids import DirectoryId, TopicId, TopicPartition

TOPIC_ID, TARGET, SOURCE = TopicId(UUID(int=7)), DirectoryId(UUID(int=8)), DirectoryId(UUID(int=9))


class Reports:
    """Takes down what is asked of the controller, whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: list[DirectoryId] = []
        self.answers: list[Callable[[], object]] = []

    def assign(
        self, _topic: TopicId, _index: int, directory: DirectoryId, accepted: Callable[[], object]
    ) -> None:
        self.asked.append(directory)
        self.answers.append(accepted)


def test_an_answer_to_what_was_asked_back_meanwhile_says_nothing() -> None:
    reports, accepted = Reports(), list[Move]()
    announcements = Announcements(reports, lambda: True, on_accepted=accepted.append)
    move = cast(
        "Move",
        SimpleNamespace(
            partition=SimpleNamespace(topic_id=TOPIC_ID, promised=None, state=None),
            topic_partition=TopicPartition("t", 0),
            source=SimpleNamespace(directory_id=SOURCE),
            target=SimpleNamespace(directory_id=TARGET),
            state=MoveState.ASSIGNMENT_QUEUED,
            attempt=0,
        ),
    )
    announcements.announce(move)
    # Its target had no room for a moment.
    announcements.take_back(move)
    announcements.announce(move)
    assert reports.asked == [TARGET, SOURCE, TARGET]

    reports.answers[0]()
    assert accepted == []
    reports.answers[2]()
    assert accepted == [move]
