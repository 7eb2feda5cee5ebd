"""Rates, and values as people read them."""

from __future__ import annotations

import pytest

from jbodlab.vocabulary.expressions import MetricUnit
from lab.plan.values import parse_rate, show


@pytest.mark.parametrize(
    ("text", "messages"), [("500/s", 500.0), ("0.5/s", 0.5), ("2MiB/s", 2 * 1024 * 1024 / 200)]
)
def test_a_rate_is_in_messages(text: str, messages: float) -> None:
    assert parse_rate(text, 200) == messages


@pytest.mark.parametrize(
    ("number", "unit", "shown"),
    [
        (0.2281, MetricUnit.DURATION, "228 ms"),
        (31.04, MetricUnit.DURATION, "31 s"),
        (float("inf"), MetricUnit.DURATION, "never"),
        (0.99951, MetricUnit.SHARE, "99.951 %"),
        (3.0, MetricUnit.COUNT, "3"),
    ],
)
def test_values_are_shown_for_people(number: float, unit: MetricUnit, shown: str) -> None:
    assert show(number, unit) == shown
