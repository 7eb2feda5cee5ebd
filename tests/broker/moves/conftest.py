"""Fixtures of the tests of moves."""

from tests.broker.moves.moving import disk, moving

__all__ = ["disk", "moving"]
