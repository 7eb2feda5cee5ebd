"""What objectives mean: against a naive evaluator, and what units do."""

from __future__ import annotations

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.rehearsal.expressions import Metric, parse
from lab.rehearsal.values import Unit, parse_quantity, parse_rate, show

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


def count(_: Metric) -> Unit:
    return Unit.COUNT


@given(COMPARISONS, st.fixed_dictionaries(dict.fromkeys("abc", st.integers(0, 3))))
def test_an_expression_holds_when_all_its_comparisons_do(
    wanted: list[tuple[str, str, int]], values: dict[str, int]
) -> None:
    text = " and ".join(f"{name} {sign} {number}" for name, sign, number in wanted)

    found = parse(text, count)

    naive = all(NAIVE[sign](values[name], number) for name, sign, number in wanted)
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
    unit = Unit.SHARE if "%" in text else Unit.DURATION if text.endswith("s") else Unit.COUNT

    assert parse(text, lambda _: unit).holds(lambda _: value) is holds


def test_a_metric_has_an_owner_and_an_argument() -> None:
    found = parse("writers.availability(1s) > 99%", lambda _: Unit.SHARE)

    assert found.metrics == [Metric("writers", "availability", "1s")]


def test_a_repetition_is_an_owner() -> None:
    assert parse("first#2.gap < 1s", lambda _: Unit.DURATION).metrics == [Metric("first#2", "gap")]


@pytest.mark.parametrize(
    ("text", "messages"), [("500/s", 500.0), ("0.5/s", 0.5), ("2MiB/s", 2 * 1024 * 1024 / 200)]
)
def test_a_rate_is_in_messages(text: str, messages: float) -> None:
    assert parse_rate(text, 200) == messages


def test_a_percentage_is_a_share() -> None:
    assert parse_quantity("99.5%").number == 0.995


@pytest.mark.parametrize(
    ("number", "unit", "shown"),
    [
        (0.2281, Unit.DURATION, "228 ms"),
        (31.04, Unit.DURATION, "31 s"),
        (float("inf"), Unit.DURATION, "never"),
        (0.99951, Unit.SHARE, "99.951 %"),
        (3.0, Unit.COUNT, "3"),
    ],
)
def test_values_are_shown_for_people(number: float, unit: Unit, shown: str) -> None:
    assert show(number, unit) == shown
