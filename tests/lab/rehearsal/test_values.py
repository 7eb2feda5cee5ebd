"""Durations as people write them."""

from __future__ import annotations

import pytest

from lab.rehearsal.values import show_seconds


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ms"),
        (0.034, "34 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (9.476, "9.5 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (200, "3 min 20 s"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (float("inf"), "never"),
    ],
)
def test_a_duration_is_shown_as_people_write_it(seconds: float, shown: str) -> None:
    assert show_seconds(seconds) == shown
