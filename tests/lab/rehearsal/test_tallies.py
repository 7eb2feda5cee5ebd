"""Figures that are asked for again and again look at each message once."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, SupportsIndex, overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.vocabulary.expressions import MetricName
from lab.rehearsal.facts import NOT_ANSWERED, Sent
from lab.rehearsal.metrics import Measured
from lab.rehearsal.series import SENT, GrowingSeries
from lab.rehearsal.tallies import Acks, Hole, Latencies
from tests.lab.rehearsal.runs import facts, fault, ns, sent, steady, writer

RATE, PARTITIONS = 5000, 6
ASKED = [
    MetricName("all", "gap"),
    MetricName("first", "gap"),
    MetricName("writers", "gap"),
    *(
        MetricName("writers", field)
        for field in ("acked", "errors", "unknown", "p50", "p99", "max")
    ),
    MetricName("writers", "p99", "inside"),
    MetricName("writers", "max", "outside"),
    MetricName("writers", "availability", "1s"),
    MetricName("writers", "windows", "100ms"),
]


class Counted(list[Sent]):
    """Counts the messages that it hands out."""

    handed_out = 0

    def __iter__(self) -> Any:
        for one in super().__iter__():
            self.handed_out += 1
            yield one

    @overload
    def __getitem__(self, key: SupportsIndex) -> Sent: ...
    @overload
    def __getitem__(self, key: slice) -> list[Sent]: ...
    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        self.handed_out += len(found) if isinstance(key, slice) else 1
        return found


def messages(begin: float, end: float) -> Iterable[Sent]:
    for number in range(round(begin * RATE), round(end * RATE)):
        due = number / RATE
        yield sent(due, due + 0.002, partition=number % PARTITIONS)


def test_a_measurement_costs_after_ten_minutes_what_it_cost_at_the_start() -> None:
    """A tick of 50 ms at 5,000 messages/s looks at the 250 new ones, a few times each."""
    series = Counted()
    measured = Measured(facts(series, faults=[fault(1, None)], end_ns=0))

    def tick(begin: float, end: float) -> int:
        series.extend(messages(begin, end))
        series.handed_out = 0
        measured.look_at(facts(series, faults=[fault(1, None)], end_ns=ns(end)))
        for metric in ASKED:
            measured(metric)
        return series.handed_out

    tick(0, 2)
    at_the_start = tick(2, 2.05)
    tick(2.05, 20)
    later = tick(20, 20.05)

    assert at_the_start == later
    assert later <= 250 * len(ASKED)


def test_of_old_acknowledgements_none_is_looked_at_again() -> None:
    acks = Acks()
    for at in range(1000):
        acks.add(ns(at / 10))
    acks.longest(ns(1), None, ns(100))
    looked_at: list[int] = []

    class Times(list[int]):
        def __getitem__(self, key: Any) -> Any:
            looked_at.append(key)
            return super().__getitem__(key)

    acks.times = Times(acks.times)
    acks.add(ns(100))
    acks.longest(ns(1), None, ns(100.05))

    # Those of the last second, and some by which the place of that second is found.
    assert len(looked_at) < 60


def naive(times: list[int], begin: int, until: int | None, now: int) -> int | None:
    end = now if until is None else min(until, now)
    times = sorted(times)
    holes = [min(b, now) - a for a, b in pairwise(times) if b > begin and a < end]
    return max(holes, default=None)


@given(
    st.lists(st.integers(0, 5000), max_size=60),
    st.lists(st.tuples(st.integers(0, 6000), st.none() | st.integers(0, 6000)), max_size=5),
)
def test_a_longest_hole_is_that_of_a_naive_look_however_late_acknowledgements_are_read(
    numbers: list[int], spans: list[tuple[int, int | None]]
) -> None:
    acks, known = Acks(), []
    # Mostly in order, some late by up to two seconds.
    chance = random.Random(len(numbers))
    order = sorted(numbers, key=lambda at: at + chance.choice((0, 0, 300, 2000)))
    for at in order:
        acks.add(at * 1_000_000)
        known.append(at * 1_000_000)
        now = max(known)
        for begin, until in spans:
            span = begin * 1_000_000, None if until is None else until * 1_000_000
            found: Hole | None = acks.longest(*span, now)
            assert (None if found is None else found.length_ns) == naive(known, *span, now)


@pytest.mark.parametrize("share", [0.5, 0.99, 1.0])
def test_a_percentile_differs_from_the_true_one_by_a_thousandth(share: float) -> None:
    chance = random.Random(7)
    values = [round(chance.lognormvariate(16, 2)) for _ in range(5000)]
    latencies = Latencies("", ())
    latencies.take([Sent(0, 0, value, 0, 0, 0, 0, 0) for value in values])

    true = sorted(values)[max(0, round(share * len(values)) - 1)]
    assert latencies.percentile_ns(share) == pytest.approx(true, rel=0.001)


def record(due: float, done: float | None, *, partition: int = 0) -> bytes:
    done_ns = NOT_ANSWERED if done is None else ns(done)
    return SENT.pack(ns(due), ns(due), done_ns, round(due * 10), 0, partition, 0, 0)


def test_a_series_knows_what_was_handed_over_before_there_is_an_answer(tmp_path: Path) -> None:
    file = tmp_path / "writers.bin"
    file.write_bytes(record(1, None) + record(1, 1.5) + record(2, None))
    series = GrowingSeries(file, Sent, SENT)

    assert [one.due_ns for one in series.since(0)] == [ns(1)]
    assert series.last_due == {0: ns(2)}


def test_what_a_killed_producer_left_without_an_answer_is_unanswered(tmp_path: Path) -> None:
    file = tmp_path / "writers.bin"
    file.write_bytes(record(1, None) + record(2, None) + record(3, None) + record(2, 2.5))
    series = GrowingSeries(file, Sent, SENT)

    assert [one.due_ns for one in series.since(0)] == [ns(2)]
    series.close()
    found = series.since(0)
    assert [one.due_ns for one in found] == [ns(2), ns(1), ns(3)]
    assert Measured(facts(found))(MetricName("writers", "unknown")) == 2


def test_a_series_keeps_the_last_acknowledgement_before_a_moment_and_late_ones(
    tmp_path: Path,
) -> None:
    file = tmp_path / "writers.bin"
    before = [record(at, at + 0.1) for at in (1, 2, 3)]
    file.write_bytes(record(3, None) + b"".join(before))
    series = GrowingSeries(file, Sent, SENT)

    assert series.since(ns(4)) == []
    file.write_bytes(file.read_bytes() + record(3.9, 4.2) + record(4.1, 4.3))
    assert [one.due_ns for one in series.since(ns(4))] == [ns(4.1)]
    assert [one.done_ns for one in series.earlier] == [ns(3.1), ns(4.2)]


def test_two_producers_of_one_topic_share_its_gaps() -> None:
    writers = {"a": writer(steady(0, 5)), "b": writer(steady(5.05, 10))}
    measured = Measured(facts(writers=writers))

    assert measured(MetricName("all", "gap")) == pytest.approx(0.15)
