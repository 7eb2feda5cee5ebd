from __future__ import annotations

from jbodlab.runtime.metrics import (
    LATENCY_BOUNDS_S,
    Histogram,
    by_label,
    histograms,
    render,
    rows,
    values,
)


def test_text_is_that_of_prometheus() -> None:
    latency = Histogram((0.001, 0.5))
    for seconds in (0.0005, 0.001, 0.25, 7):
        latency.observe(seconds)

    text = render(
        [
            *values(("g", "a gauge", -1), ("c_total", "a counter", 2.5)),
            *rows(
                by_label("logDirectory", {"/d1": "", "/d2": "full"}), ("l", "one for each", bool)
            ),
            histograms("h_seconds", "a histogram", [({"logDirectory": "/d1"}, latency)]),
        ]
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

    text = render(rows(items, ("g", "back\\slash\nline", float)))

    assert text == ('# HELP g back\\\\slash\\nline\n# TYPE g gauge\ng{dir="a\\"b\\\\c\\nd"} 1\n')


def test_names_begin_with_the_prefix() -> None:
    found = values(("A", "a", 1), ("B_total", "b", 2), prefix="kafka_x_")

    assert [(metric.name, metric.kind) for metric in found] == [
        ("kafka_x_A", "gauge"),
        ("kafka_x_B_total", "counter"),
    ]


def test_buckets_are_cumulative_and_ascending() -> None:
    histogram = Histogram()
    for bound in LATENCY_BOUNDS_S:
        histogram.observe(bound)
    histogram.observe(100)

    buckets = [value for suffix, _, value in histogram.samples() if suffix == "_bucket"]

    assert buckets == list(range(1, len(LATENCY_BOUNDS_S) + 2))
    assert list(LATENCY_BOUNDS_S) == sorted(LATENCY_BOUNDS_S)
    assert histogram.count == len(LATENCY_BOUNDS_S) + 1
