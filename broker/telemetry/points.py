"""Points of a client's push: OpenTelemetry's metrics, of which gauges and sums are read.

Clients of Kafka push no other kinds. `metrics.binpb` is what `scripts/compile_proto.py` makes of
`proto/opentelemetry`.

Source: KIP-714, opentelemetry/proto/metrics/v1/metrics.proto.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import msgspec

from broker.bounds.limits import TELEMETRY_POINTS_MAX, TELEMETRY_TEXT_MAX
from jbodlab.record_batch.compression import decompress
from jbodlab.vocabulary.errors import DecodeError


class Point(msgspec.Struct, frozen=True):
    """The newest value of one metric with some attributes.

    Attributes:
        attributes: As in `node_id=1,topic=t`, sorted; empty if there are none.
    """

    name: str
    attributes: str
    value: float


class Pushed(msgspec.Struct, frozen=True, kw_only=True):
    """The points of one push, and how many more were dropped."""

    points: tuple[Point, ...]
    dropped: int


def read(compression: int, data: bytes, bytes_max: int) -> Pushed:
    """Read the body of a push.

    Args:
        compression: Kafka's number of the codec.
        data: Metrics as the client sent them.
        bytes_max: Most bytes that they may have before compression.

    Raises:
        DecompressedSizeError: there are more bytes.
        DecodeError: they are damaged.
    """
    # The library is needed by nobody whose clients push nothing.
    from google.protobuf.message import DecodeError as ProtobufError

    plain = decompress(compression, data, bytes_max)
    try:
        found = _metrics_data().FromString(plain)
    except ProtobufError as error:
        raise DecodeError(f"the pushed metrics are no OpenTelemetry message: {error}") from error
    newest = {(each.name, each.attributes): each for each in filter(_is_short, _points(found))}
    points = tuple(islice(newest.values(), TELEMETRY_POINTS_MAX))
    return Pushed(points=points, dropped=_count(found) - len(points))


def _points(found: Any) -> Iterator[Point]:
    for metric, point in _of_numbers(found):
        value = point.as_double if point.WhichOneof("value") == "as_double" else point.as_int
        attributes = sorted((each.key, _text(each.value)) for each in point.attributes)
        yield Point(metric.name, ",".join(map("=".join, attributes)), float(value))


def _of_numbers(found: Any) -> Iterator[tuple[Any, Any]]:
    for resource in found.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                if kind is not None:
                    for point in getattr(metric, kind).data_points:
                        yield metric, point


def _count(found: Any) -> int:
    return sum(1 for _ in _of_numbers(found))


def _is_short(point: Point) -> bool:
    return max(len(point.name), len(point.attributes)) <= TELEMETRY_TEXT_MAX


def _text(value: Any) -> str:
    kind = value.WhichOneof("value")
    return "" if kind is None else str(getattr(value, kind))


@cache
def _metrics_data() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    data = pkgutil.get_data(__package__, "metrics.binpb")
    assert data is not None
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("opentelemetry.MetricsData"))
