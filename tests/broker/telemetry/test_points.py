from __future__ import annotations

import gzip

import pytest

from broker.bounds.limits import TELEMETRY_POINTS_MAX, TELEMETRY_TEXT_MAX
from broker.telemetry.points import Point, read
from jbodlab.vocabulary.errors import DecompressedSizeError
from tests.broker.telemetry.metrics_data import gauge, metric, metrics_data, point

NONE, GZIP = 0, 1
GAUGE, SUM, HISTOGRAM = 5, 7, 9


def test_gauges_and_sums_are_read_with_the_attributes_of_their_points() -> None:
    data = metrics_data(
        metric("a", GAUGE, point(1.5, topic="t", node_id="1"), point(-2)),
        metric("b", SUM, point(7)),
        metric("c", HISTOGRAM, b""),
    )
    found = read(GZIP, gzip.compress(data), 10_000)
    assert found.points == (
        Point("a", "node_id=1,topic=t", 1.5),
        Point("a", "", -2.0),
        Point("b", "", 7.0),
    )
    assert found.dropped == 0


def test_points_with_long_names_and_those_beyond_a_number_are_dropped_and_counted() -> None:
    points = [point(1, n=str(number)) for number in range(400)]
    data = metrics_data(*(metric(name, GAUGE, *points) for name in "abc"))
    found = read(NONE, data, 1 << 20)
    assert (len(found.points), found.dropped) == (TELEMETRY_POINTS_MAX, 200)

    assert read(NONE, gauge("x" * (TELEMETRY_TEXT_MAX + 1), 1), 1 << 20).dropped == 1


def test_of_two_points_with_the_same_attributes_the_last_is_kept() -> None:
    found = read(NONE, metrics_data(metric("a", GAUGE, point(1), point(2.5))), 10_000)
    assert found.points == (Point("a", "", 2.5),)
    assert found.dropped == 1


def test_body_that_grows_too_large_is_refused() -> None:
    with pytest.raises(DecompressedSizeError):
        read(GZIP, gzip.compress(bytes(10_000)), 9_999)
