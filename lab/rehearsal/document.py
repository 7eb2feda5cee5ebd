"""YAML as values that know where they stand, so that a mistake is said with its line and its keys.

Read with PyYAML's safe loader: scalars are what YAML 1.1 makes of them, tags of programs are
refused. A key that stands twice in one mapping is a mistake, of which YAML says nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

SHOWN_MAX = 60


class Mistakes:
    """All mistakes of one file, in the order of their lines.

    Args:
        file: Its name, as it is shown.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self._found: list[tuple[int, str]] = []

    def add(self, line: int, path: str, text: str) -> None:
        """Note a mistake at a line, from 1, under a path of keys."""
        self._found.append((line, f"{self.file}:{line}: {f'{path}: ' if path else ''}{text}"))

    @property
    def lines(self) -> list[str]:
        """One line each."""
        return list(dict.fromkeys(text for _, text in sorted(self._found, key=lambda one: one[0])))


@dataclass(frozen=True, slots=True)
class Item:
    """A value of the file.

    Attributes:
        value: A scalar, a list of items, or a mapping of texts to items; None where nothing
            stands, which is a mistake that was noted.
        line: Where it begins, from 1.
        path: Its keys from the top, such as `timeline[2].for`.
    """

    value: Any
    line: int
    path: str
    mistakes: Mistakes = field(repr=False)

    def wrong(self, text: str) -> None:
        """Note a mistake here."""
        self.mistakes.add(self.line, self.path, text)

    @property
    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.value, dict):
            return {key: item.plain for key, item in self.value.items()}
        if isinstance(self.value, list):
            return [item.plain for item in self.value]
        return self.value

    @property
    def shown(self) -> str:
        """The value as a mistake quotes it."""
        if isinstance(self.value, dict):
            return "a mapping"
        return "a list" if isinstance(self.value, list) else repr(self.value)[:SHOWN_MAX]

    def items(self) -> list[Item]:
        """Return the entries of a list; a mistake, and none, where it is no list."""
        if isinstance(self.value, list):
            return self.value
        if self.value is not None:
            self.wrong(f"expected a list, got {self.shown}")
        return []


def read(text: str, mistakes: Mistakes) -> Item | None:
    """Return the one document of a text; None, and a mistake, where it cannot be read."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        mistakes.add(mark.line + 1 if mark else 1, "", f"not YAML: {error.problem}")
        return None
    except yaml.YAMLError as error:
        mistakes.add(1, "", f"not YAML: {' '.join(str(error).split())}")
        return None
    if node is None:
        mistakes.add(1, "", "expected a plan, got an empty file")
        return None
    return _item(node, "", mistakes, yaml.constructor.SafeConstructor())


def _item(
    node: yaml.Node, path: str, mistakes: Mistakes, maker: yaml.constructor.SafeConstructor
) -> Item:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return Item(_mapping(node, path, mistakes, maker), line, path, mistakes)
    if isinstance(node, yaml.SequenceNode):
        entries = [
            _item(each, f"{path}[{number}]", mistakes, maker)
            for number, each in enumerate(node.value)
        ]
        return Item(entries, line, path, mistakes)
    try:
        value = maker.construct_object(node)
        if value is None:
            mistakes.add(line, path, "expected a value, got none")
        return Item(value, line, path, mistakes)
    except (yaml.YAMLError, ValueError):
        mistakes.add(line, path, f"{node.value!r} cannot be read as {node.tag}")
        return Item(None, line, path, mistakes)


def _mapping(
    node: yaml.MappingNode, path: str, mistakes: Mistakes, maker: yaml.constructor.SafeConstructor
) -> dict[str, Item]:
    found: dict[str, Item] = {}
    for key_node, value_node in node.value:
        # The text itself: YAML 1.1 would take `on` for true and `1` for a number.
        key = str(key_node.value)
        inner = f"{path}.{key}" if path else key
        if key in found:
            mistakes.add(key_node.start_mark.line + 1, inner, "duplicate key")
        found[key] = _item(value_node, inner, mistakes, maker)
    return found


class Fields:
    """The keys of one mapping: each is asked for once, and what nobody asked for is a mistake."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self._asked: list[str] = []
        self._given: dict[str, Item] = item.value if isinstance(item.value, dict) else {}
        if not isinstance(item.value, dict) and item.value is not None:
            item.wrong(f"expected a mapping, got {item.shown}")

    def __contains__(self, key: str) -> bool:
        return key in self._given

    def get(self, key: str, *, needed: bool = False) -> Item | None:
        """Return what stands under a key; None where nothing does."""
        self._asked.append(key)
        found = self._given.get(key)
        if found is None and needed and isinstance(self.item.value, dict):
            self.item.wrong(f"missing key {key!r}")
        return found

    def read(self, key: str, parse: Callable[[Any], T], default: T, *, needed: bool = False) -> T:
        """Return a value that `parse` understands, which raises ValueError for others."""
        found = self.get(key, needed=needed)
        if found is None or found.value is None:
            return default
        try:
            return parse(found.plain)
        except ValueError as error:
            found.wrong(str(error))
            return default

    def rest(self, known: Iterable[str]) -> dict[str, Item]:
        """Return what stands under further keys that are known."""
        found = {key: item for key in known if (item := self.get(key)) is not None}
        return {key: item for key, item in found.items() if item.value is not None}

    def done(self) -> None:
        """Note the keys that nobody asked for."""
        for key, item in self._given.items():
            if key not in self._asked:
                near = difflib.get_close_matches(key, self._asked, 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                item.wrong(f"unknown key {key!r}{hint}")


def text(value: Any) -> str:
    """Return a text that is not empty."""
    if isinstance(value, str) and value.strip():
        return value
    raise ValueError(f"expected a text, got {value!r:.{SHOWN_MAX}}")


def whole(least: int, most: int) -> Callable[[Any], int]:
    """Return what reads a whole number of a range."""

    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            got = f"{value!r:.{SHOWN_MAX}}"
            wanted = f"{least}" if least == most else f"a number from {least} to {most}"
            raise ValueError(f"expected {wanted}, got {got}")
        return value

    return parse


def truth(value: Any) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    raise ValueError(f"expected true or false, got {value!r:.{SHOWN_MAX}}")


def one_of(*words: str) -> Callable[[Any], str]:
    """Return what reads one of some words."""

    def parse(value: Any) -> str:
        if str(value) in words:
            return str(value)
        raise ValueError(f"expected one of {', '.join(words)}, got {value!r:.{SHOWN_MAX}}")

    return parse


def texts(value: Any) -> dict[str, str]:
    """Return a mapping of texts to texts, such as Kafka's settings."""
    if not isinstance(value, dict):
        raise ValueError(f"expected a mapping, got {value!r:.{SHOWN_MAX}}")
    found = {}
    for key, each in value.items():
        if isinstance(each, dict | list):
            raise ValueError(f"expected one word for {key!r}")
        found[key] = str(each).lower() if isinstance(each, bool) else str(each)
    return found
