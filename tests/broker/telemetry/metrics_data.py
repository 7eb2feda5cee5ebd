"""Bodies of pushes, written byte by byte as OpenTelemetry's schema says."""

from __future__ import annotations

import struct


def _field(number: int, data: bytes) -> bytes:
    size, length = len(data), b""
    while size >= 128:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def point(value: float | int, **attributes: str) -> bytes:
    """A data point: whole numbers are sfixed64, others doubles."""
    body = (
        b"\x31" + struct.pack("<q", value)
        if isinstance(value, int)
        else b"\x21" + struct.pack("<d", value)
    )
    for key, text in attributes.items():
        body += _field(7, _field(1, key.encode()) + _field(2, _field(1, text.encode())))
    return body


def metric(name: str, kind: int, *points: bytes) -> bytes:
    """A metric with points; kind 5 gauge, 7 sum, 9 histogram."""
    return _field(1, name.encode()) + _field(kind, b"".join(_field(1, each) for each in points))


def metrics_data(*metrics: bytes) -> bytes:
    """A whole body."""
    return _field(1, _field(2, b"".join(_field(2, each) for each in metrics)))


def gauge(name: str, value: float | int) -> bytes:
    """A body with one gauge."""
    return metrics_data(metric(name, 5, point(value)))
