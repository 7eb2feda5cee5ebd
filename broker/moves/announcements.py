"""Tells the controller where a replica is going to be, or that it stays.

Source: KIP-858, "Intra-broker replica movement".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from broker.moves.move import Move
from broker.moves.move_states import MoveState
from broker.placement.directory_reports import DirectoryReports
from broker.replica.replica_state import Deleted
from jbodlab.vocabulary.directory_id import UNASSIGNED


class Announcements:
    """Reports of moves to the controller.

    Args:
        assigner: Tells it.
        asks_controller: Whether the cluster records directories at all.
        on_accepted: Called when the controller knows the target of a move.
    """

    def __init__(
        self,
        assigner: DirectoryReports,
        asks_controller: Callable[[], bool],
        *,
        on_accepted: Callable[[Move], None],
    ) -> None:
        self._assigner = assigner
        self._asks_controller = asks_controller
        self._on_accepted = on_accepted

    def announce(self, move: Move) -> None:
        """Ask for the target of a move."""
        directory_id = move.target.directory_id
        assert directory_id is not None
        move.attempt += 1
        move.partition.promised = directory_id
        accepted = partial(self._accepted, move, move.attempt)
        if not self._asks_controller():
            asyncio.get_running_loop().call_soon(accepted)
            return
        self._assigner.assign(
            move.partition.topic_id, move.topic_partition.partition, directory_id, accepted
        )

    def _accepted(self, move: Move, attempt: int) -> None:
        # An answer to what was asked back meanwhile says nothing.
        if attempt == move.attempt and move.state is MoveState.ASSIGNMENT_QUEUED:
            self._on_accepted(move)

    def take_back(self, move: Move) -> None:
        """Say that the replica is where it was, as its move is over."""
        move.attempt += 1
        if self._asks_controller() and not isinstance(move.partition.state, Deleted):
            self._assigner.assign(
                move.partition.topic_id,
                move.topic_partition.partition,
                move.source.directory_id or UNASSIGNED,
                _nothing_more,
            )


def _nothing_more() -> None:
    """The controller knows where the replica is again."""
