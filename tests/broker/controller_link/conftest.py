"""A controller, and a port for one that goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.machine.ports import HeldPorts
from tests.broker.controller_link.scripted_controller import ScriptedController


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else is given while nobody listens on it."""
    with HeldPorts.hold(1) as held:
        (number,) = held.numbers
        yield number


@pytest.fixture
def controller() -> ScriptedController:
    return ScriptedController()
