from __future__ import annotations

import pytest

from jbodlab.pages.conditions import ConditionError, parse_condition
from jbodlab.pages.values import Unit

KNOWN = {
    "outages": Unit.NUMBER,
    "longest_ms": Unit.DURATION,
    "availability": Unit.SHARE,
}
FIGURES = {"outages": 3, "longest_ms": 30_000, "availability": 0.9996}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("outages > 0", True),
        ("outages>=3", True),
        ("outages != 3", False),
        ("outages == 3.0", True),
        ("longest_ms > 30s", False),
        ("longest_ms >= 0.5min and outages < 4", True),
        ("longest_ms > 29999", True),
        ("longest_ms < 5m and longest_ms < 5min", True),
        ("availability < 99.95%", False),
        ("availability <= 0.9996", True),
        ("outages > 5 or longest_ms > 1h or availability < 99.97%", True),
        ("outages > 5 and longest_ms > 1s or outages == 3", True),
        ("outages == 3 or outages > 5 and longest_ms > 1h", True),
    ],
)
def test_a_condition_is_comparisons_joined_by_and_before_or(text: str, holds: bool) -> None:
    assert parse_condition(text, KNOWN).holds(FIGURES) is holds


def test_a_figure_that_is_not_known_meets_no_comparison() -> None:
    figures = {**FIGURES, "longest_ms": None}

    condition = parse_condition("longest_ms < 1s or longest_ms != 5", KNOWN)

    assert not condition.holds(figures)
    assert condition.found(figures) == "longest_ms is unknown"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "expected a metric, got the end"),
        ("outage > 0", "unknown figure 'outage' (did you mean 'outages'?)"),
        ("x > 0", "unknown figure 'x' (known: outages, longest_ms, availability)"),
        ("a.outages > 0", "unknown figure 'a.outages' (did you mean 'outages'?)"),
        ("outages", 'expected one of < <= == != >= > after "outages", got the end'),
        ("outages >", 'expected a value after "outages >", got the end'),
        ("0 < outages", 'expected a metric, got "0"'),
        ("outages > 0, longest_ms > 1", 'cannot read ", longest_ms > 1"'),
        ("outages > 0 longest_ms > 1", 'expected "and", "or" or the end, got "longest_ms"'),
        ("outages > 5s", 'expected a number for "outages", got "5s"'),
        ("longest_ms > 5%", 'expected a duration for "longest_ms", got "5%"'),
        ("availability < 99.95", 'expected a share for "availability", got "99.95"'),
    ],
)
def test_the_error_names_the_first_mistake(text: str, fault: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse_condition(text, KNOWN)

    assert str(error.value) == f"condition {text!r}: {fault}"
