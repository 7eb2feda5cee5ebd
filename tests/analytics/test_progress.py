from __future__ import annotations

import io
import time

import pytest

from analytics.job import progress
from analytics.job.progress import Progress

DEADLINE_S = 30


class Screen(io.StringIO):
    """Text that is written to a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_AFTER_S", "ON_TERMINAL_EVERY_S", "ELSE_EVERY_S"):
        monkeypatch.setattr(progress, name, 0.001)


@pytest.mark.parametrize(
    ("out", "line"),
    [
        (io.StringIO(), "jbodlab replay: reading the log (0 s)\n"),
        (Screen(), "\rreading the log (0 s)"),
    ],
)
def test_a_long_run_says_its_stage_and_its_time(out: io.StringIO, line: str) -> None:
    with Progress(out) as shown:
        shown.stage("reading the log")
        deadline = time.monotonic() + DEADLINE_S
        while line not in out.getvalue():
            assert time.monotonic() < deadline, out.getvalue()
            time.sleep(0.001)

    assert out.getvalue().endswith("\r") == out.isatty()
