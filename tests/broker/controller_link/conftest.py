"""A port for a controller that goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.cluster.ports import HeldPorts


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else is given while nobody listens on it."""
    with HeldPorts.hold(1) as held:
        (number,) = held.numbers
        yield number
