"""A dict for a million entries, none of whose steps takes long.

Python's dict copies its table each time that it grows, which holds the interpreter's lock for 35
to 80 ms at 700,000 entries. This one divides its entries among several dicts before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, TypeVar, overload

Key = TypeVar("Key")
Value = TypeVar("Value")
Default = TypeVar("Default")

UNDIVIDED_MAX = 40_000
"""Entries of one dict: Python's grows next at 43,690, in some 4 ms."""

PARTS = 64
_SHIFT, _MASK = 40, PARTS - 1
"""Python's dict uses the lower bits of a hash."""


class LargeDict(MutableMapping[Key, Value]):
    """Values by key, in the order in which their keys came; more than `UNDIVIDED_MAX` in each part.

    Each call is of a few ms at most; what iterates over all or copies them is not.

    Attributes:
        parts: The entries, in one dict while they are few; to be read only.
    """

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[dict[Key, Value]] = [{}]

    def _part(self, key: object) -> dict[Key, Value]:
        parts = self.parts
        return parts[0] if len(parts) == 1 else parts[hash(key) >> _SHIFT & _MASK]

    def __getitem__(self, key: Key) -> Value:
        return self._part(key)[key]

    @overload
    def get(self, key: Key, /) -> Value | None: ...

    @overload
    def get(self, key: Key, /, default: Value | Default) -> Value | Default: ...

    def get(self, key: Key, /, default: Any = None) -> Any:
        """Return the value of a key, or a default."""
        return self._part(key).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._part(key)

    def __setitem__(self, key: Key, value: Value) -> None:
        parts = self.parts
        if len(parts) > 1:
            parts[hash(key) >> _SHIFT & _MASK][key] = value
        else:
            parts[0][key] = value
            self._divide()

    def __delitem__(self, key: Key) -> None:
        del self._part(key)[key]

    def __iter__(self) -> Iterator[Key]:
        for part in self.parts:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def copy(self) -> LargeDict[Key, Value]:
        """Return a copy; the values are the same objects."""
        copied: LargeDict[Key, Value] = LargeDict()
        copied.parts = [part.copy() for part in self.parts]
        return copied

    def put_last(self, entries: Iterable[tuple[Key, Value]]) -> None:
        """Set the values of some keys, which become the last ones."""
        parts = self.parts
        for key, value in entries:
            part = parts[hash(key) >> _SHIFT & _MASK] if len(parts) > 1 else parts[0]
            part.pop(key, None)
            part[key] = value
        self._divide()

    def take_parts(self) -> Iterator[list[Value]]:
        """Yield all values and forget them, part by part; in each they are in order."""
        parts, self.parts = self.parts, [{}]
        while parts:
            yield list(parts.pop().values())

    def _divide(self) -> None:
        if len(self.parts) == 1 and len(self.parts[0]) > UNDIVIDED_MAX:
            undivided, self.parts = self.parts[0], [{} for _ in range(PARTS)]
            self.put_last(undivided.items())
