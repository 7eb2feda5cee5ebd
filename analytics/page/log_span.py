"""The stretch of time that a log covers, and the buckets that it is cut into for figures."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from analytics.store.questions import Questions, Words

MAX_BUCKETS = 200
DAYS = 60

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_WIDTHS_MS = (
    *(10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28)),
)
_SPAN = """
    SELECT epoch_ms(min(earliest_time)) AS first_ms, epoch_ms(max(latest_time)) AS last_ms,
      epoch_ms(coalesce(arg_max_null(last_time, last_offset),
        (SELECT max(valid_from_time) FROM brokers))) AS end_ms
    FROM record_counts
"""
"""Without any records, the end of the snapshot counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpan:
    """When the log begins and ends, in milliseconds since 1970; None = no time is known.

    `end_ms` is the time of the last record, up to which counts what still holds.
    """

    first_ms: int | None
    last_ms: int | None
    end_ms: int | None

    @property
    def bucket_ms(self) -> int:
        """Width of the buckets: a usual one, of which `MAX_BUCKETS` cover the log."""
        if self.first_ms is None or self.last_ms is None:
            return _SECOND
        wanted = max(1, -(-(self.last_ms - self.first_ms) // MAX_BUCKETS))
        for width in _WIDTHS_MS:
            if width >= wanted:
                return width
        return -(-wanted // _DAY) * _DAY

    def words(self, objective: float | None = None) -> dict[str, str]:
        """Return what the words in the queries of figures stand for, as SQL."""
        known = {"end_ms": self.end_ms, "bucket_ms": self.bucket_ms, "objective": objective}
        found = {word: "NULL" if value is None else repr(value) for word, value in known.items()}
        return found | {"first_day": f"DATE'{self.first_day}'"}

    @property
    def first_day(self) -> str:
        """Begin of the last `DAYS` days, as an ISO date."""
        if self.end_ms is None:
            return "0001-01-01"
        first = datetime(1, 1, 1, tzinfo=UTC)
        end = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.end_ms)
        return max(first, end - min(timedelta(DAYS), end - first)).date().isoformat()


def log_spans(questions: Questions, clusters: Collection[str]) -> dict[str, LogSpan]:
    """Return the time that the log of each cluster covers."""
    words: Words = {cluster: {} for cluster in clusters}
    return {
        cluster: LogSpan(first_ms=first_ms, last_ms=last_ms, end_ms=end_ms)
        for cluster, first_ms, last_ms, end_ms in questions.rows_of_each(words, _SPAN)
    }
