from __future__ import annotations

import pytest

from jbodlab.vocabulary.durations import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.999, "999 ms"),
        (1, "1 s"),
        (4.23, "4.2 s"),
        (9.476, "9.5 s"),
        (59.949, "59.9 s"),
        (59.999, "1 min"),
        (200, "3 min 20 s"),
        (60, "1 min"),
        (61.5, "1 min 1 s"),
        (3600, "1 h"),
        (7380, "2 h 3 min"),
        (90000, "1 d 1 h"),
        (-61, "-1 min 1 s"),
        (0.9996, "1 s"),
        (float("inf"), "never"),
    ],
)
def test_durations_are_written_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
