"""Signals: raised once, held back around what must be written down."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from lab.machine.interrupts import SIGNALS, Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    found = Interrupts()
    found.install()
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_every_signal_interrupts(interrupts: Interrupts, number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)

    assert interrupts.received == number


def test_a_signal_waits_until_the_step_is_over(interrupts: Interrupts) -> None:
    steps = []

    def make() -> None:
        with interrupts.deferred():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("made")
            with interrupts.deferred():
                steps.append("written down")

    with pytest.raises(KeyboardInterrupt):
        make()

    assert steps == ["made", "written down"]


def test_a_second_signal_does_not_interrupt_the_cleaning_up(interrupts: Interrupts) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)

    os.kill(os.getpid(), signal.SIGINT)
    with interrupts.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
