"""Expressions against a naive evaluator, and their units."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.expressions import MetricName, MetricUnit, parse, parse_quantity

NAIVE = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
COMPARISONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(sorted(NAIVE)), st.integers(0, 3)),
    min_size=1,
    max_size=4,
)


def count(_: MetricName) -> MetricUnit:
    return MetricUnit.COUNT


@given(
    st.lists(COMPARISONS, min_size=1, max_size=3),
    st.fixed_dictionaries(dict.fromkeys("abc", st.integers(0, 3))),
)
def test_and_binds_more_closely_than_or(
    wanted: list[list[tuple[str, str, int]]], values: dict[str, int]
) -> None:
    every = [[f"{name} {sign} {number}" for name, sign, number in group] for group in wanted]
    text = " or ".join(" and ".join(group) for group in every)

    found = parse(text, count)

    naive = any(
        all(NAIVE[sign](values[name], number) for name, sign, number in group) for group in wanted
    )
    assert found.holds(lambda metric: values[metric.field]) == naive
    assert str(found) == text


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("x < 2s", 1.999, True),
        ("x < 2s", 2.0, False),
        ("x <= 200ms", 0.2, True),
        ("x < 1m30s", 89.9, True),
        ("x < 30s", float("inf"), False),
        ("x > 99.5%", 0.995, False),
        ("x > 99.5%", 0.9951, True),
        ("x == 1", 1.0, True),
        ("x == 0", None, False),
        ("x != 0", None, False),
    ],
)
def test_a_value_is_compared_in_its_unit(text: str, value: float | None, holds: bool) -> None:
    unit = (
        MetricUnit.SHARE
        if "%" in text
        else MetricUnit.DURATION
        if text.endswith("s")
        else MetricUnit.COUNT
    )

    assert parse(text, lambda _: unit).holds(lambda _: value) is holds


def test_a_metric_has_an_owner_and_an_argument() -> None:
    found = parse("writers.availability(1s) > 99%", lambda _: MetricUnit.SHARE)

    assert found.metrics == [MetricName("writers", "availability", "1s")]


def test_a_repetition_is_an_owner() -> None:
    assert parse("first#2.gap < 1s", lambda _: MetricUnit.DURATION).metrics == [
        MetricName("first#2", "gap")
    ]


def test_a_percentage_is_a_share() -> None:
    assert parse_quantity("99.5%").number == 0.995


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300.0),
        ("5min", 300.0),
        ("0.5min", 30.0),
        ("1h30min", 5400.0),
        ("1m30s", 90.0),
        ("2d", 172_800.0),
        ("1m5ms", 60.005),
        (2.5, 2.5),
    ],
)
def test_a_duration_is_amounts_from_the_largest_unit_to_the_smallest(
    text: object, seconds: float
) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "5 s", "5s5m", "-5s", "5parsecs", True, -1, None])
def test_any_other_text_is_not_a_duration(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        duration_s(text)


def test_milliseconds_need_no_unit_where_the_name_of_the_metric_has_it() -> None:
    assert (
        parse("longest_ms > 500", lambda _: MetricUnit.DURATION).comparisons[0].wanted.number == 0.5
    )
    with pytest.raises(ValueError, match='expected a duration for "gap", got "500"'):
        parse("gap > 500", lambda _: MetricUnit.DURATION)
