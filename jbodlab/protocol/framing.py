"""Bytes of a connection to whole frames.

A frame on the wire:

    size     int32   length of what follows, big endian
    payload  size    header and body of one request or response

Small frames are cut out of a scratch buffer. A frame larger than that buffer gets one of its own
as soon as its length is known, so that the socket writes into its final place. An announced size
alone costs little memory, though: the buffer of a very large frame grows with what has arrived.

The decoder performs no input or output: `get_buffer` says where received bytes belong, `received`
how many arrived there, and returns the frames that became complete.
"""

from __future__ import annotations

import struct

from jbodlab.errors import DecodeError

MAX_FRAME_BYTES = 100 << 20
"""Kafka's default `socket.request.max.bytes`."""

MIN_FRAME_BYTES = 4
"""A response header is a correlation id; nothing is shorter."""

SCRATCH_BYTES = 64 << 10

FIRST_BUFFER_BYTES = 1 << 20
"""Given to a large frame before more of it has arrived: room for the requests of most producers."""

GROWTH_FACTOR = 4
"""How often as large the next buffer of a frame is that has filled its last one."""

SIZE = struct.Struct(">i")


class FrameDecoder:
    """Collects received bytes of one connection; frames come out without their size field."""

    def __init__(
        self, *, max_frame_bytes: int = MAX_FRAME_BYTES, min_frame_bytes: int = MIN_FRAME_BYTES
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._min_frame_bytes = min_frame_bytes
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._filled = 0
        """Bytes in the scratch buffer that belong to no finished frame."""
        self._large: memoryview | None = None
        self._large_filled = 0
        self._large_size = 0
        """Size of the frame that fills `_large`, which may still have to grow."""

    def get_buffer(self) -> memoryview:
        """Return where the next bytes belong; never empty."""
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._scratch[self._filled :]

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes written to the start of `get_buffer`.

        Returns:
            The frames that are complete now, in order, each in memory of its own, read-only.

        Raises:
            DecodeError: the announced size cannot be one of a frame; the connection is of no
                further use.
        """
        if self._large is not None:
            return self._received_large(self._large, count)
        self._filled += count
        frames: list[memoryview] = []
        position = 0
        while self._filled - position >= SIZE.size:
            size = self._size_at(position)
            start = position + SIZE.size
            if self._filled - start >= size:
                frames.append(memoryview(bytes(self._scratch[start : start + size])))
                position = start + size
            elif SIZE.size + size > SCRATCH_BYTES:
                self._large = memoryview(bytearray(min(size, FIRST_BUFFER_BYTES)))
                self._large_size = size
                self._large_filled = self._filled - start
                self._large[: self._large_filled] = self._scratch[start : self._filled]
                position = self._filled
                break
            else:
                break
        if position:
            rest = bytes(self._scratch[position : self._filled])
            self._scratch[: len(rest)] = rest
            self._filled = len(rest)
        return frames

    def receive(self, data: bytes | memoryview) -> list[memoryview]:
        """Copy `data` in and return the frames that it completes; see `received`."""
        frames: list[memoryview] = []
        view = memoryview(data)
        while view:
            buffer = self.get_buffer()
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            frames += self.received(count)
            view = view[count:]
        return frames

    def _received_large(self, large: memoryview, count: int) -> list[memoryview]:
        self._large_filled += count
        if self._large_filled < len(large):
            return []
        if self._large_filled < self._large_size:
            grown = memoryview(bytearray(min(self._large_size, GROWTH_FACTOR * len(large))))
            grown[: len(large)] = large
            self._large = grown
            return []
        self._large = None
        return [large.toreadonly()]

    def _size_at(self, position: int) -> int:
        size: int = SIZE.unpack_from(self._scratch, position)[0]
        if not self._min_frame_bytes <= size <= self._max_frame_bytes:
            start = bytes(self._scratch[position : position + 8])
            raise DecodeError(
                f"frame of {size} bytes is outside {self._min_frame_bytes} to "
                f"{self._max_frame_bytes} (starts with {start!r})"
            )
        return size
