"""Cost of the checks of the records of a client's batch, beside the CRC that is checked anyway.

One process, no broker. Batches of 16 KB, as producers send them by default, with records of one
size and of sizes that vary by half; then the same, compressed.
"""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import cramjam

from broker.produce.batch_checks import check_body, check_header
from broker.replica.partition import BatchLimits
from jbodlab.record_batch import compression
from jbodlab.record_batch.crc32c import crc32c
from jbodlab.record_batch.record_batch import (
    CRC_OFFSET,
    CRC_START,
    HEADER_SIZE,
    SIZE_PREFIX,
    build_batch,
)

SHAPES = ((1, 16_000), (16, 1_000), (160, 100), (1_000, 16), (10_000, 100))
"""Records of a batch, and bytes of each value."""
LIMITS = BatchLimits(max_message_bytes=1 << 24, segment_bytes=1 << 30)
NOW_MS = 1_700_000_000_000
RUNS_S = 0.3
"""How long each case is repeated; the fastest counts, which other work disturbs least."""

CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": partial(compression.compress, compression.LZ4),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
"""In the order of their numbers, from 1 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCheck:
    """The price of one kind of batch, in microseconds."""

    name: str
    records: int
    batch_bytes: int
    header_us: float
    """Header and CRC."""
    body_us: float
    """Decompression, if any, and all records."""

    @property
    def text(self) -> str:
        """The prices in one line."""
        each = self.body_us / self.records
        return f"{self.body_us:.1f}  ({each:.2f} a record; header and CRC {self.header_us:.1f})"


def measure_batch_checks() -> Iterator[BatchCheck]:
    """Check batches of every kind."""
    for count, size in SHAPES:
        alike = [_text(size)] * count
        yield _measured(f"{count} records of {size} B", _batch(alike), count)
        if count > 1:
            random.seed(0)
            mixed = [_text(random.randint(size // 2, size * 3 // 2)) for _ in range(count)]
            yield _measured(f"{count} records of about {size} B", _batch(mixed), count)
    plain = _batch([_text(100) for _ in range(160)])
    for number, (name, compress) in enumerate(CODECS.items(), 1):
        data = _with_body(plain, number, compress(plain[HEADER_SIZE:]))
        yield _measured(f"160 records of 100 B, {name}", data, 160)


def _text(size: int) -> bytes:
    return random.randbytes(size // 2).hex().encode().ljust(size, b"x")


def _batch(values: list[bytes]) -> bytes:
    return build_batch([(None, value) for value in values], timestamp_ms=NOW_MS)


def _with_body(data: bytes, codec: int, body: bytes) -> bytes:
    changed = bytearray(data[:HEADER_SIZE]) + body
    changed[8:12] = (len(changed) - SIZE_PREFIX).to_bytes(4, "big")
    changed[21:23] = codec.to_bytes(2, "big")
    changed[CRC_OFFSET:CRC_START] = crc32c(memoryview(changed)[CRC_START:]).to_bytes(4, "big")
    return bytes(changed)


def _measured(name: str, data: bytes, count: int) -> BatchCheck:
    # As they come from a connection.
    records = memoryview(data)
    header = check_header(records, LIMITS)
    return BatchCheck(
        name=name,
        records=count,
        batch_bytes=len(data),
        header_us=_fastest_us(lambda: check_header(records, LIMITS)),
        body_us=_fastest_us(lambda: check_body(records, header, LIMITS, NOW_MS)),
    )


def _fastest_us(call: Callable[[], object]) -> float:
    fastest = float("inf")
    end = time.perf_counter() + RUNS_S
    while (begin := time.perf_counter()) < end:
        call()
        fastest = min(fastest, time.perf_counter() - begin)
    return fastest * 1e6
