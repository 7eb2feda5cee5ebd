"""Bytes of a connection to whole frames.

A frame on the wire:

    size     int32   length of what follows, big endian
    payload  size    header and body of one request or response

Bytes arrive in a scratch buffer, which many connections of one thread may share: what they leave
there of an unfinished frame is put aside until more comes. A frame larger than that buffer gets one
of its own, so that the socket writes into its final place, as soon as its length is known and it is
admitted. An announced size alone costs little memory, though: a large buffer is given to a frame
when its first one is full, and a very large one takes memory only where bytes have arrived.

The decoder performs no input or output: `get_buffer` says where received bytes belong, `received`
how many arrived there, and returns the frames that became complete.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable

from jbodlab.vocabulary.errors import DecodeError

MAX_FRAME_BYTES = 100 << 20
"""Kafka's default `socket.request.max.bytes`."""

MIN_FRAME_BYTES = 4
"""A response header is a correlation id; nothing is shorter."""

SCRATCH_BYTES = 64 << 10

START_BYTES = 64
"""A large frame is admitted by so much of it: the header of a request, with the client's name."""

FIRST_BUFFER_BYTES = 1 << 20
"""Given to a large frame before more of it has arrived: room for the requests of most producers."""

CLEARED_BYTES_MAX = 4 << 20
"""A larger buffer is not taken from the heap: to clear 100 MiB at once occupies the loop for tens
of ms."""

SIZE = struct.Struct(">i")

Admit = Callable[[memoryview, int], bool]
"""(start, size) of a large frame -> whether it may come now; raises DecodeError if never."""


def new_scratch() -> memoryview:
    """Return a buffer that decoders of one thread may share."""
    return memoryview(bytearray(SCRATCH_BYTES))


SMALL_FRAME_BYTES_MAX = SCRATCH_BYTES - SIZE.size
"""A larger frame gets a buffer of its own."""


class FrameDecoder:
    """Collects received bytes of one connection; frames come out without their size field.

    Args:
        max_frame_bytes: A larger frame is an error.
        min_frame_bytes: A smaller one as well.
        scratch: Shared with others that are never between `get_buffer` and `received` at the
            same time.
        admit: Asked once before memory is given to a large frame, and again by `retry`.
    """

    def __init__(
        self,
        *,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        min_frame_bytes: int = MIN_FRAME_BYTES,
        scratch: memoryview | None = None,
        admit: Admit | None = None,
    ) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._min_frame_bytes = min_frame_bytes
        self._scratch = new_scratch() if scratch is None else scratch
        self._admit = admit
        self._rest = b""
        """Bytes that belong to no finished frame."""
        self._large: memoryview | None = None
        self._large_filled = 0
        self._large_size = 0
        """Size of the frame that fills `_large`, which may still have to grow."""
        self.is_waiting = False
        """Whether a large frame may not come yet; nothing is to be received until `retry`."""

    @property
    def is_receiving(self) -> bool:
        """Whether a large frame was admitted and is not whole yet."""
        return self._large is not None

    @property
    def unfinished_bytes(self) -> int:
        """Memory of a frame that is not whole yet."""
        return len(self._rest) if self._large is None else len(self._large)

    def get_buffer(self) -> memoryview:
        """Return where the next bytes belong; never empty."""
        if self._large is not None:
            return self._large[self._large_filled :]
        rest = len(self._rest)
        if rest:
            self._scratch[:rest] = self._rest
        return self._scratch[rest:]

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes written to the start of `get_buffer`.

        Returns:
            The frames that are complete now, in order, each in memory of its own, read-only.

        Raises:
            DecodeError: the announced size cannot be one of a frame, or it is not wanted; the
                connection is of no further use.
        """
        if self._large is not None:
            return self._received_large(self._large, count)
        frames: list[memoryview] = []
        scratch, position, filled = self._scratch, 0, len(self._rest) + count
        while filled - position >= SIZE.size:
            size: int = SIZE.unpack_from(scratch, position)[0]
            if not self._min_frame_bytes <= size <= self._max_frame_bytes:
                raise self._misfit(size, position, filled)
            start = position + SIZE.size
            end = start + size
            if end > filled:
                if size > SMALL_FRAME_BYTES_MAX and self._begin_large(start, filled, size):
                    position = filled
                break
            frames.append(memoryview(bytes(scratch[start:end])))
            position = end
        self._rest = bytes(scratch[position:filled]) if position < filled else b""
        return frames

    def bound(self, min_frame_bytes: int, max_frame_bytes: int) -> None:
        """Change the limits of the frames that come from now on."""
        self._min_frame_bytes = min_frame_bytes
        self._max_frame_bytes = max_frame_bytes

    def close(self) -> None:
        """Let go of what has come, and of who is asked: nothing more is received."""
        self._large = None
        self._rest = b""
        self._admit = None

    def retry(self) -> list[memoryview]:
        """Ask again for the large frame that waits; see `received`."""
        self.is_waiting = False
        self.get_buffer()
        return self.received(0)

    def _begin_large(self, start: int, filled: int, size: int) -> bool:
        if self._admit is not None:
            if filled - start < START_BYTES:
                return False
            if not self._admit(self._scratch[start:filled], size):
                self.is_waiting = True
                return False
        self._large = memoryview(bytearray(min(size, FIRST_BUFFER_BYTES)))
        self._large_size = size
        self._large_filled = filled - start
        self._large[: self._large_filled] = self._scratch[start:filled]
        return True

    def _received_large(self, large: memoryview, count: int) -> list[memoryview]:
        self._large_filled += count
        if self._large_filled < len(large):
            return []
        if self._large_filled < self._large_size:
            size = self._large_size
            grown = bytearray(size) if size <= CLEARED_BYTES_MAX else mmap.mmap(-1, size)
            self._large = memoryview(grown)
            self._large[: len(large)] = large
            return []
        self._large = None
        return [large.toreadonly()]

    def _misfit(self, size: int, position: int, filled: int) -> DecodeError:
        start = bytes(self._scratch[position : min(position + 8, filled)])
        return DecodeError(
            f"frame of {size} bytes is outside {self._min_frame_bytes} to "
            f"{self._max_frame_bytes} (starts with {start!r})"
        )
