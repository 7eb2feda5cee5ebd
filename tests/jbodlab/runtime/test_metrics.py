from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jbodlab.runtime.metrics import (
    LATENCY_BOUNDS_S,
    Declared,
    Histogram,
    Metric,
    by_label,
    each_by_itself,
    histograms,
    metrics_of_servers,
    render,
    rows,
    values,
)

GAUGE = {"g": Declared("", "gauge", "a gauge")}


def test_text_is_that_of_prometheus() -> None:
    latency = Histogram((0.001, 0.5))
    for seconds in (0.0005, 0.001, 0.25, 7):
        latency.observe(seconds)

    text = render(
        [
            *values({"g": -1, "c_total": 2.5}),
            *rows(by_label("logDirectory", {"/d1": "", "/d2": "full"}), {"l": bool}),
            histograms("h_seconds", [({"logDirectory": "/d1"}, latency)]),
        ],
        {
            "g": Declared("", "gauge", "a gauge"),
            "c_total": Declared("", "counter", "a counter"),
            "l": Declared("logDirectory", "gauge", "one for each"),
            "h_seconds": Declared("logDirectory", "histogram", "a histogram"),
        },
    )

    assert text == (
        "# HELP g a gauge\n# TYPE g gauge\ng -1\n"
        "# HELP c_total a counter\n# TYPE c_total counter\nc_total 2.5\n"
        '# HELP l one for each\n# TYPE l gauge\nl{logDirectory="/d1"} 0\nl{logDirectory="/d2"} 1\n'
        "# HELP h_seconds a histogram\n# TYPE h_seconds histogram\n"
        'h_seconds_bucket{logDirectory="/d1",le="0.001"} 2\n'
        'h_seconds_bucket{logDirectory="/d1",le="0.5"} 3\n'
        'h_seconds_bucket{logDirectory="/d1",le="+Inf"} 4\n'
        'h_seconds_sum{logDirectory="/d1"} 7.2515\n'
        'h_seconds_count{logDirectory="/d1"} 4\n'
    )


def test_labels_and_meanings_are_escaped() -> None:
    items = by_label("dir", {'a"b\\c\nd': 1})

    text = render(rows(items, {"g": float}), {"g": Declared("dir", "gauge", "back\\slash\nline")})

    assert text == ('# HELP g back\\\\slash\\nline\n# TYPE g gauge\ng{dir="a\\"b\\\\c\\nd"} 1\n')


def test_names_begin_with_the_prefix() -> None:
    found = values({"A": 1, "B_total": 2}, prefix="kafka_x_")

    assert [metric.name for metric in found] == ["kafka_x_A", "kafka_x_B_total"]


def test_documentation_says_of_metrics_what_servers_say() -> None:
    text = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()

    assert list(metrics_of_servers()) == re.findall(
        r"^\| `((?:kafka|jbodlab)_\w+)", text, re.MULTILINE
    )
    for name, (labels, kind, meaning) in metrics_of_servers().items():
        shown = f"{name}{{{labels}}}" if labels else name
        assert f"\n| `{shown}` | {kind} | {meaning} |\n" in text
        assert (kind == "counter") == name.endswith("_total")


def test_buckets_are_cumulative_and_ascending() -> None:
    histogram = Histogram()
    for bound in LATENCY_BOUNDS_S:
        histogram.observe(bound)
    histogram.observe(100)

    buckets = [value for suffix, _, value in histogram.samples() if suffix == "_bucket"]

    assert buckets == list(range(1, len(LATENCY_BOUNDS_S) + 2))
    assert list(LATENCY_BOUNDS_S) == sorted(LATENCY_BOUNDS_S)
    assert histogram.count == len(LATENCY_BOUNDS_S) + 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1e15, "1000000000000000"),
        (1.5e300, "1.5e+300"),
        (2**63, "9223372036854775808"),
        (10**400, "+Inf"),
        (-(10**400), "-Inf"),
        (True, "1"),
    ],
)
def test_each_number_is_written_as_prometheus_reads_it(value: float, text: str) -> None:
    assert render(values({"g": value})).splitlines()[-1] == f"g {text}"


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("", {"a": "b"}, None),
        ("", {"a": "b"}, "text"),
        ("", {"a": None}, 1),
        ("", {"not a label": "b"}, 1),
        ("", {"": "b"}, 1),
        (" x", {}, 1),
        ("\n", {}, 1),
    ],
)
def test_a_sample_that_cannot_be_written_costs_only_its_own_line(
    name: str, labels: Any, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    samples = [("", {"a": "1"}, 1), (name, labels, value), ("", {"a": "2"}, 2)]

    lines = render([Metric("g", samples)], GAUGE).splitlines()

    assert lines == ["# HELP g a gauge", "# TYPE g gauge", 'g{a="1"} 1', 'g{a="2"} 2']
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_names_that_are_not_utf_8_are_written_with_a_mark() -> None:
    items = by_label("dir", {"/d\udcff1": 1, "/d\ud8002": 2, "/\r\x85\u2028": 3})

    text = render(rows(items, {"g": float}), {"g": Declared("", "gauge", "a \udc80gauge")})

    assert text.encode().decode().split("\n") == [
        "# HELP g a ?gauge",
        "# TYPE g gauge",
        'g{dir="/d?1"} 1',
        'g{dir="/d?2"} 2',
        'g{dir="/\r\x85\u2028"} 3',
        "",
    ]


def test_a_series_is_written_once() -> None:
    """A scraper refuses the page, or one of both values."""
    samples = [("", {"a": "1"}, 1), ("", {"a": "1"}, 2), ("", {"a": "2"}, 3)]

    text = render([Metric("g", samples)], GAUGE)

    assert text == '# HELP g a gauge\n# TYPE g gauge\ng{a="1"} 1\ng{a="2"} 3\n'


def test_a_part_that_cannot_be_collected_costs_only_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bad() -> Iterator[Metric]:
        yield from values({"b1": 1})
        raise ZeroDivisionError

    def good(name: str) -> Iterator[Metric]:
        yield from values({name: 1})

    found = each_by_itself(lambda: good("a"), bad, lambda: good("c"))

    assert [metric.name for metric in found] == ["a", "b1", "c"]
    assert "ZeroDivisionError" in caplog.text


def test_an_item_that_cannot_be_read_costs_only_its_own_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = by_label("dir", {"/d1": 1, "/d2": 0, "/d3": 2})

    text = render(rows(items, {"g": lambda value: 2 / value, "h": float}))

    assert [line for line in text.splitlines() if line[0] != "#"] == [
        'g{dir="/d1"} 2',
        'g{dir="/d3"} 1',
        'h{dir="/d1"} 1',
        'h{dir="/d2"} 0',
        'h{dir="/d3"} 2',
    ]
    assert "ZeroDivisionError" in caplog.text
