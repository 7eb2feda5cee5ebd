"""YAML as values with their lines, and as the structs of a schema; each mistake has line and keys.

Read with PyYAML's safe loader: scalars are what YAML 1.1 makes of them, tags of programs are
refused. A duplicate key, of which YAML says nothing, is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

import msgspec
import yaml
from msgspec import UNSET, Struct, structs

from fault_injection.kinds import meant

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
        value: A scalar, a list of items, or a mapping of texts to items; None without
            a value, which is a mistake that was noted.
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

    def child(self, key: str) -> Item:
        """Return what is written under a key of a mapping; the mapping itself without."""
        return self.value.get(key, self) if isinstance(self.value, dict) else self

    def children(self) -> Iterator[Item]:
        """Return the entries of a list; none where it is not one."""
        return iter(self.value if isinstance(self.value, list) else ())


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
    node.value = _joined(node.value)
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
        key = _joined(str(key_node.value))
        inner = f"{path}.{key}" if path else key
        if key in found:
            mistakes.add(key_node.start_mark.line + 1, inner, "duplicate key")
        found[key] = _item(value_node, inner, mistakes, maker)
    return found


def _joined(text: str) -> str:
    """Join two escapes that are one character, as JSON writes those above U+FFFF."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def decode(item: Item, wanted: Any) -> Any:
    """Return a value of the wanted type; UNSET, and a mistake, where the item is wrong.

    Args:
        item: The item as written.
        wanted: A struct, `tuple[X, ...]`, `dict[str, X]`, or a type that msgspec converts. Its
            `Meta.extra` may have `read`, a function that reads the value, or `choose`, one that
            gives the type of this item.
    """
    if item.value is None:
        return UNSET
    if NoneType in get_args(wanted):
        wanted = get_args(wanted)[0]
    kind: Any = wanted
    extra: dict[str, Any] = {}
    if get_origin(wanted) is Annotated:
        kind, *metas = get_args(wanted)
        extra = metas[-1].extra or {}
    if "choose" in extra:
        kind = extra["choose"](item)
        return UNSET if kind is None else decode(item, kind)
    if "read" in extra:
        return _read(item, extra["read"])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _struct(item, kind)
    if get_origin(kind) is tuple:
        return _list(item, get_args(kind)[0], is_needed=kind is not wanted)
    if get_origin(kind) is dict:
        return _dictionary(item, get_args(kind)[1])
    return _read(item, lambda value: msgspec.convert(value, wanted), wanted)


def fields(item: Item, wanted: type[Struct]) -> dict[str, Any] | None:
    """Return the fields of a struct that are written and right; None where no mapping is written.

    A missing key, and one that the struct does not have, are mistakes.
    """
    if not isinstance(item.value, dict):
        item.wrong(f"expected a mapping, got {item.shown}")
        return None
    known = {each.encode_name: each for each in structs.fields(wanted)}
    tag = wanted.__struct_config__.tag_field
    for key, each in item.value.items():
        if key not in known and key != tag:
            hint = meant(key, known) or f"; expected one of {', '.join(known)}"
            each.wrong(f"unknown key {key!r}{hint}")
    for key, field_ in known.items():
        if field_.required and key not in item.value:
            item.wrong(f"missing key {key!r}")
    found = {
        field_.name: decode(item.value[key], field_.type)
        for key, field_ in known.items()
        if key in item.value
    }
    return {name: value for name, value in found.items() if value is not UNSET}


def _struct(item: Item, wanted: type[Struct]) -> Any:
    found = fields(item, wanted)
    needed = {each.name for each in structs.fields(wanted) if each.required}
    if found is None or not needed <= set(found):
        return UNSET
    try:
        return wanted(**found)
    except ValueError as error:
        # The fault may be in the default of a key with a mistake of its own.
        if all(
            each.name in found for each in structs.fields(wanted) if each.encode_name in item.value
        ):
            item.wrong(str(error))
        return UNSET


def _list(item: Item, wanted: Any, *, is_needed: bool) -> Any:
    if not isinstance(item.value, list):
        item.wrong(f"expected a list, got {item.shown}")
        return UNSET
    if is_needed and not item.value:
        item.wrong("expected at least one entry")
    return tuple(decode(each, wanted) for each in item.value)


def _dictionary(item: Item, wanted: Any) -> Any:
    if not isinstance(item.value, dict):
        item.wrong(f"expected a mapping of names, got {item.shown}")
        return UNSET
    return {key: decode(each, wanted) for key, each in item.value.items()}


def _read(item: Item, parse: Callable[[Any], Any], wanted: Any = None) -> Any:
    try:
        return parse(item.plain)
    except msgspec.ValidationError:
        item.wrong(f"expected {_expected(wanted)}, got {item.shown}")
    except ValueError as error:
        item.wrong(str(error))
    return UNSET


def _expected(wanted: Any) -> str:
    """Return what a plain type takes, by its JSON Schema."""
    schema = msgspec.json.schema(wanted)
    if schema["type"] != "integer":
        return {"boolean": "true or false", "string": "a text"}[schema["type"]]
    least, most = schema["minimum"], schema["maximum"]
    return f"{least}" if least == most else f"a number from {least} to {most}"
