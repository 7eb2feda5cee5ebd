from __future__ import annotations

import random
import struct
import tracemalloc

import pytest

from jbodlab.kafka_wire.framing import (
    CLEARED_BYTES_MAX,
    FIRST_BUFFER_BYTES,
    SCRATCH_BYTES,
    START_BYTES,
    FrameDecoder,
    new_scratch,
)
from jbodlab.vocabulary.errors import DecodeError


def wire(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def received(decoder: FrameDecoder, data: bytes | memoryview) -> list[memoryview]:
    """Copy bytes in as a socket does; returns the frames that they complete."""
    frames: list[memoryview] = []
    view = memoryview(data)
    while view:
        buffer = decoder.get_buffer()
        count = min(len(buffer), len(view))
        buffer[:count] = view[:count]
        frames += decoder.received(count)
        view = view[count:]
    return frames


def test_frames_come_out_whole_however_the_bytes_arrive() -> None:
    rng = random.Random(1)
    sizes = [4, 5, 100, SCRATCH_BYTES - 5, SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, 300_000, 8]
    payloads = [rng.randbytes(size) for size in sizes]
    stream = wire(*payloads)

    for step in (1, 3, 1000, SCRATCH_BYTES, len(stream)):
        decoder = FrameDecoder()
        frames = []
        for start in range(0, len(stream), step):
            frames += received(decoder, stream[start : start + step])
        assert [bytes(frame) for frame in frames] == payloads
        assert all(frame.readonly for frame in frames)


def test_frame_keeps_its_bytes_when_later_ones_arrive() -> None:
    decoder = FrameDecoder()
    (first,) = received(decoder, wire(b"first frame"))
    received(decoder, wire(b"another one, longer than the first"))
    assert bytes(first) == b"first frame"


@pytest.mark.parametrize("size", [-1, 0, 3, 1001, 0x47455420])
def test_size_that_no_frame_has_is_refused(size: int) -> None:
    decoder = FrameDecoder(max_frame_bytes=1000)
    with pytest.raises(DecodeError, match=str(size)):
        received(decoder, struct.pack(">i", size))


def test_frame_of_the_largest_size_is_accepted() -> None:
    decoder = FrameDecoder(max_frame_bytes=1000)
    assert [len(f) for f in received(decoder, wire(bytes(1000), bytes(4)))] == [1000, 4]


def test_a_frame_that_outgrows_its_buffers_comes_out_whole() -> None:
    rng = random.Random(2)
    for size in (FIRST_BUFFER_BYTES, FIRST_BUFFER_BYTES + 1, 5 * FIRST_BUFFER_BYTES + 7):
        payload = rng.randbytes(size)
        decoder = FrameDecoder()
        frames = [bytes(frame) for frame in received(decoder, wire(payload, b"next"))]
        assert frames == [payload, b"next"]


def test_an_announced_size_takes_little_memory_before_its_bytes_are_there() -> None:
    tracemalloc.start()
    try:
        decoder = FrameDecoder()
        received(decoder, struct.pack(">i", 100 << 20) + b"a few bytes")
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 2 * FIRST_BUFFER_BYTES


def test_no_call_clears_or_copies_a_very_large_buffer() -> None:
    size = 10 * CLEARED_BYTES_MAX
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        frames = received(decoder, struct.pack(">i", size) + bytes(CLEARED_BYTES_MAX))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    rest = size - CLEARED_BYTES_MAX
    assert not frames
    assert len(decoder.get_buffer()) == rest
    assert peak < 3 * CLEARED_BYTES_MAX

    frames = received(decoder, b"x" * rest)

    assert [bytes(frame) for frame in frames] == [bytes(CLEARED_BYTES_MAX) + b"x" * rest]


def test_decoders_may_share_their_scratch_buffer() -> None:
    scratch = new_scratch()
    first, second = (FrameDecoder(scratch=scratch) for _ in range(2))
    wanted = struct.pack(">i", 8) + b"firstone", struct.pack(">i", 9) + b"secondone"
    found: list[list[bytes]] = [[], []]

    for at in range(13):
        for decoder, data, frames in zip((first, second), wanted, found, strict=True):
            frames += map(bytes, received(decoder, data[at : at + 1]))

    assert found == [[b"firstone"], [b"secondone"]]


def test_large_frame_is_asked_for_by_its_start_and_waits_until_it_may_come() -> None:
    asked: list[tuple[bytes, int]] = []
    answers = [False, False, True]

    def admit(start: memoryview, size: int) -> bool:
        asked.append((bytes(start[:5]), size))
        return answers.pop(0)

    decoder = FrameDecoder(admit=admit)
    size = SCRATCH_BYTES + 10
    payload = b"start".ljust(size, b"x")

    assert received(decoder, struct.pack(">i", size) + payload[:10]) == []
    assert asked == [], "its header may not be there yet"
    assert received(decoder, payload[10:START_BYTES]) == []
    assert decoder.is_waiting
    assert decoder.retry() == []
    assert decoder.is_waiting
    assert decoder.retry() == []
    assert not decoder.is_waiting
    assert decoder.is_receiving

    assert [bytes(frame) for frame in received(decoder, payload[START_BYTES:])] == [payload]
    assert asked == [(b"start", size)] * 3
    assert not decoder.is_receiving


def test_small_frames_before_a_large_one_that_waits_come_out() -> None:
    decoder = FrameDecoder(admit=lambda start, size: False)
    small = struct.pack(">i", 5) + b"small"

    frames = received(decoder, small + struct.pack(">i", 1 << 20) + b"x" * START_BYTES)

    assert [bytes(frame) for frame in frames] == [b"small"]
    assert decoder.is_waiting


def test_frame_that_is_not_admitted_is_an_error() -> None:
    def admit(start: memoryview, size: int) -> bool:
        raise DecodeError("too large")

    with pytest.raises(DecodeError, match="too large"):
        received(FrameDecoder(admit=admit), struct.pack(">i", 1 << 20) + b"x" * START_BYTES)
