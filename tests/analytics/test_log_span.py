from __future__ import annotations

import pytest

from analytics.page.log_span import MAX_BUCKETS, LogSpan


@pytest.mark.parametrize("length_ms", [0, 1, 1999, 60_000, 86_400_000, 10**11, 3 * 10**14])
def test_a_log_of_any_length_has_few_buckets(length_ms: int) -> None:
    span = LogSpan(first_ms=1000, last_ms=1000 + length_ms, end_ms=None)

    assert length_ms // span.bucket_ms <= MAX_BUCKETS


def test_a_log_without_times_has_a_bucket_width_all_the_same() -> None:
    assert LogSpan(first_ms=None, last_ms=None, end_ms=None).bucket_ms == 1000
