from __future__ import annotations

import pytest

from analytics.derive.log_span import MAX_BUCKETS, LogSpan
from analytics.page.figure import Unit
from analytics.page.values import duration_text, escape, exact, readable, share_text


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (4230, "4.2 s"),
        (9476, "9.5 s"),
        (59_949, "59.9 s"),
        (59_999, "1 min"),
        (200_000, "3 min 20 s"),
        (60_000, "1 min"),
        (61_500, "1 min 1 s"),
        (3_600_000, "1 h"),
        (7_380_000, "2 h 3 min"),
        (90_000_000, "1 d 1 h"),
        (-61_000, "-1 min 1 s"),
    ],
)
def test_durations_are_told_in_their_two_largest_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"),
        (0.99999999, "99.9999 %"),
        (0.5, "50 %"),
        (0.0, "0 %"),
        (1 / 3, "33.3333 %"),
        (2.5, "250 %"),
    ],
)
def test_only_what_is_whole_is_called_100_percent(share: float, text: str) -> None:
    assert share_text(share) == text


def test_the_exact_value_is_kept_beside_the_readable_one() -> None:
    assert exact(1_700_000_000_123, Unit.TIME) == "2023-11-14T22:13:20.123Z"
    assert readable(1_700_000_000_123, Unit.TIME) == "2023-11-14 22:13:20.123"
    assert (exact(1_234_567, Unit.NUMBER), readable(1_234_567, Unit.NUMBER)) == (
        "1234567",
        "1,234,567",
    )
    assert (exact(0.1 + 0.2, Unit.SHARE), readable(1 / 7 - 1, Unit.DEVIATION)) == (
        "0.30000000000000004",
        "-85.7 %",
    )
    assert (exact(None, Unit.TIME), readable(12_345, Unit.LABEL)) == (None, "12345")


def test_characters_that_control_anything_are_shown_as_what_they_are() -> None:
    assert escape("<a href=\"x\" id='y'>&\x00\x1b\r\n\u202e") == (
        "&lt;a href=&quot;x&quot; id=&#x27;y&#x27;&gt;&amp;\\u0000\\u001b\\u000d\\u000a\\u202e"
    )


@pytest.mark.parametrize("length_ms", [0, 1, 1999, 60_000, 86_400_000, 10**11, 3 * 10**14])
def test_a_log_of_any_length_has_few_buckets(length_ms: int) -> None:
    span = LogSpan(first_ms=1000, last_ms=1000 + length_ms, end_ms=None)

    assert length_ms // span.bucket_ms <= MAX_BUCKETS


def test_a_log_without_times_has_a_bucket_width_all_the_same() -> None:
    assert LogSpan(first_ms=None, last_ms=None, end_ms=None).bucket_ms == 1000
