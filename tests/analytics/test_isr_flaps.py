from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.analytics.small_logs import Answered, Row, picked

END = datetime.fromtimestamp(10, UTC)
MILLISECOND = timedelta(milliseconds=1)

Totals = dict[tuple[object, object, object], tuple[int, int, int, int]]


def random_changes(seed: int) -> list[Row]:
    source = random.Random(seed)
    inside = {(topic, index): {1, 2, 3} for topic in "ab" for index in range(2)}
    rows: list[Row] = []
    for offset in range(300):
        key = source.choice(list(inside))
        before = inside[key]
        after = {broker for broker in (1, 2, 3) if source.random() < 0.6}
        inside[key] = after
        rows.append(
            {
                "topic": key[0],
                "topic_id": key[0] * 3,
                "partition": key[1],
                "offset": offset,
                "time": datetime.fromtimestamp(offset * 0.007, UTC),
                "joined": sorted(after - before),
                "left": sorted(before - after),
                "cause": "reassignment" if source.random() < 0.1 else "follower",
            }
        )
    return rows


def one_by_one(rows: list[Row]) -> Totals:
    """Follow each replica through the changes."""
    events: dict[tuple[object, object, object], list[tuple[datetime, bool]]] = {}
    for row in rows:
        left = [] if row["cause"] == "reassignment" else row["left"]
        for brokers, out in ((left, True), (row["joined"], False)):
            for broker in brokers:  # type: ignore[attr-defined]
                key = (row["topic_id"], row["partition"], broker)
                events.setdefault(key, []).append((row["time"], out))  # type: ignore[arg-type]
    found: Totals = {}
    for key, own in events.items():
        ends = [time for time, _ in own[1:]] + [END]
        spans = zip(own, ends, strict=True)
        lasted = [(end - time) // MILLISECOND for (time, out), end in spans if out]
        shrinks = sum(out for _, out in own)
        found[key] = (shrinks, len(own) - shrinks, sum(lasted), max(lasted, default=0))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_changes_sum_up_to_what_each_replica_went_through(seed: int, made_of: Answered) -> None:
    rows = random_changes(seed)
    fell = {key: one for key, one in one_by_one(rows).items() if one[0]}

    found = made_of("isr_flaps", log_ends=[{"end_time": END}], isr_changes=rows)

    names = ("topic_id", "partition", "broker", "shrinks", "expands", "out_ms_total", "out_ms_max")
    assert {row[:3]: row[3:] for row in picked(found, *names)} == fell
