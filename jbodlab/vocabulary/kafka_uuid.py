"""Kafka's 128-bit ids: their text form, their order and how new ones are drawn.

An id is a `uuid.UUID` in memory; on disk and on the wire it is 16 bytes, big-endian, high 64 bits
first. Its text is URL-safe base64 without padding, always 22 characters.

Source: `org.apache.kafka.common.Uuid`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from uuid import UUID

ZERO_UUID = UUID(int=0)
ONE_UUID = UUID(int=1)

MAX_TEXT_CHARS = 24
"""Longest accepted text: 22 characters and two of padding."""


def to_text(value: UUID) -> str:
    """Return Kafka's 22-character text of an id."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode("ascii")


def parse(text: str) -> UUID:
    """Return the id that a text names; padding is tolerated.

    Raises:
        ValueError: the text is longer than 24 characters or does not decode to 16 bytes.
    """
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"input string {text[:40]!r} is too long to be decoded as a base64 UUID")
    unpadded = text.rstrip("=")
    if "+" in unpadded or "/" in unpadded:
        # The decoder would take them for "-" and "_".
        raise ValueError(f"input string {text!r} is not URL-safe base64")
    try:
        raw = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"input string {text!r} is not base64") from error
    if len(raw) != 16:
        raise ValueError(f"input string {text!r} decodes to {len(raw)} bytes, expected 16")
    return UUID(bytes=raw)


def order_key(value: UUID) -> tuple[int, int]:
    """Return what ids are ordered by: high, then low 64 bits, both signed as in Java."""
    return _signed(value.int >> 64), _signed(value.int & 0xFFFF_FFFF_FFFF_FFFF)


def random_uuid(random_bytes: Callable[[int], bytes]) -> UUID:
    """Draw a version 4 id that is neither reserved nor would look like a command-line option.

    Args:
        random_bytes: Source of randomness, such as `os.urandom`.
    """
    while True:
        value = UUID(bytes=random_bytes(16), version=4)
        if value not in (ZERO_UUID, ONE_UUID) and not to_text(value).startswith("-"):
            return value


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
