"""How jbod-console-producer reads a line: the properties of Kafka's `LineMessageReader`.

    header:value,header:value<TAB>key<TAB>value

Headers are there with `parse.headers=true`, the key with `parse.key=true`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from admin_tool.console.client import is_true, unescaped
from admin_tool.errors import AdminError, UsageError

_FLAGS = ("parse.key", "parse.headers", "ignore.error")
_SEPARATORS = {
    "key.separator": "\t",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
}
_HEADER_SEPARATORS = ("headers.delimiter", "headers.separator", "headers.key.separator")
NULL_MARKER = "null.marker"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecord:
    """What a line says."""

    key: bytes | None = None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class LineReader:
    """Reads lines as its properties say."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Read the properties.

        Raises:
            UsageError: one is not known, or two of them would not be told apart.
        """
        for name in properties:
            if name not in _FLAGS and name not in _SEPARATORS and name != NULL_MARKER:
                known = ", ".join([*_FLAGS, *_SEPARATORS, NULL_MARKER])
                raise UsageError(f"{name} is no property of the reader: {known}")
        self._with_key, self._with_headers, self._forgives = (
            is_true(properties.get(name, "")) for name in _FLAGS
        )
        self._separators = {
            name: unescaped(properties.get(name, default)) for name, default in _SEPARATORS.items()
        }
        marker = properties.get(NULL_MARKER)
        self._null = None if marker is None else marker.encode()
        apart = [*combinations(_HEADER_SEPARATORS, 2)]
        apart += [(NULL_MARKER, name) for name in _SEPARATORS]
        named = {**self._separators, NULL_MARKER: marker}
        for first, second in apart:
            if named[first] == named[second]:
                raise UsageError(f"{first} and {second} may not be equal")
        if "" in self._separators.values():
            raise UsageError("a separator may not be empty")

    def read(self, line: bytes, number: int) -> ReadRecord:
        """Read a line without its end.

        Args:
            line: The line.
            number: Which one it is, from 1.

        Raises:
            AdminError: something is missing in it.
        """
        rest = line
        headers: tuple[tuple[str, bytes | None], ...] = ()
        key: bytes | None = None
        if self._with_headers:
            text, rest, is_found = self._split(rest, "headers.delimiter", "headers end", number)
            if is_found and text != self._null:
                headers = self._headers(text, number)
        if self._with_key:
            text, rest, is_found = self._split(rest, "key.separator", "key separator", number)
            key = self._or_null(text) if is_found else None
        return ReadRecord(key=key, value=self._or_null(rest), headers=headers)

    def _split(self, line: bytes, name: str, what: str, number: int) -> tuple[bytes, bytes, bool]:
        first, found, rest = line.partition(self._separators[name].encode())
        if found:
            return first, rest, True
        if self._forgives:
            return b"", line, False
        shown = line.decode(errors="replace")
        raise AdminError(f"No {what} found on line number {number}: '{shown}'")

    def _headers(self, text: bytes, number: int) -> tuple[tuple[str, bytes | None], ...]:
        found: list[tuple[str, bytes | None]] = []
        for pair in text.split(self._separators["headers.separator"].encode()):
            key, colon, value = pair.partition(self._separators["headers.key.separator"].encode())
            shown = pair.decode(errors="replace")
            if not colon:
                if self._forgives:
                    found.append((shown, None))
                    continue
                raise AdminError(
                    f"No header key separator found in pair '{shown}' on line number {number}"
                )
            if key == self._null:
                raise AdminError(f"a header on line number {number} has no key: '{shown}'")
            found.append((key.decode(errors="replace"), self._or_null(value)))
        return tuple(found)

    def _or_null(self, data: bytes) -> bytes | None:
        return None if data == self._null else data
