"""Fixtures of the tests of placement."""

from tests.broker.moves.moving import moving

__all__ = ["moving"]
