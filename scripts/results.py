"""Output of `--output json`, command by command: structs that `jbodlab/cli/results.tsv` declares.

`Command.prints` names what a command prints, such as `Status` or `list of ListedTopic`. Three files
are made of it: `docs/commands.md`, `docs/output.schema.json`, and `jbodlab/cli/results.pyi`, by
which mypy sees the values of the commands. The tests hold all that is printed against it.

A paragraph of the file is a struct. Its first line has its name, behind it in parentheses the
struct whose fields it has as well; `line` if it is printed in one line, and others follow, `open`
if it may have other fields; and what it is. Each other line has names of fields, their type and
their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

FILE = Path(__file__).resolve().parent.parent / "jbodlab" / "cli" / "results.tsv"
LIST, MAP, OPTIONAL, OR_NULL, OR = "list of ", "map of ", "optional ", " or null", " or "
NULLABLE = "nullable "
"""Of the elements of a map."""
WORDS = {"text": str, "integer": int, "number": float, "flag": bool, "any": Any}
_HEAD = re.compile(r"(\w+)(?: \((\w+)\))?")


class Fields(NamedTuple):
    """Fields of one type and one meaning."""

    names: tuple[str, ...]
    type: str
    meaning: str


class Declared(NamedTuple):
    """A struct; `base` is the name of the one whose fields it has as well, else empty."""

    name: str
    base: str
    is_line: bool
    is_open: bool
    meaning: str
    fields: tuple[Fields, ...]


@cache
def declared() -> dict[str, Declared]:
    """Return all structs by their names."""
    return {one.name: one for one in _read(FILE.read_text("utf-8"))}


def _read(text: str) -> Iterator[Declared]:
    for paragraph in text.strip().split("\n\n"):
        rows = [(line + "\t\t").split("\t")[:3] for line in paragraph.split("\n")]
        (head, kind, meaning), *others = rows
        match = _HEAD.fullmatch(head)
        assert match, head
        fields = tuple(Fields(tuple(names.split(", ")), *rest) for names, *rest in others)
        yield Declared(match[1], match[2] or "", "line" in kind, "open" in kind, meaning, fields)


def alternatives(prints: str) -> list[str]:
    """Return the types of which a command prints one."""
    return prints.split(OR)


@cache
def type_of(words: str) -> Any:
    """Return the type that words of the file name."""
    if words.startswith(OPTIONAL):
        return type_of(words.removeprefix(OPTIONAL)) | UnsetType
    if words.endswith(OR_NULL):
        return type_of(words.removesuffix(OR_NULL)) | None
    if words.startswith(NULLABLE):
        return type_of(words.removeprefix(NULLABLE)) | None
    if words.startswith(LIST):
        return list[type_of(words.removeprefix(LIST))]  # type: ignore[misc]
    if words.startswith(MAP):
        return dict[str, type_of(words.removeprefix(MAP))]  # type: ignore[misc]
    return WORDS[words] if words in WORDS else _struct(words)


@cache
def _struct(name: str) -> Any:
    one = declared()[name]
    fields = []
    for each in one.fields:
        found = type_of(each.type)
        if each.meaning:
            found = Annotated[found, Meta(description=each.meaning)]
        default = (UNSET,) if each.type.startswith(OPTIONAL) else ()
        fields += [(field, found, *default) for field in each.names]
    return msgspec.defstruct(
        name,
        fields,
        bases=(_struct(one.base),) if one.base else None,
        kw_only=True,
        forbid_unknown_fields=not one.is_open,
    )


def check(prints: str, text: str) -> None:
    """Hold what a command has printed against what it says that it prints.

    Raises:
        AssertionError: it is something else.
    """
    problems = []
    for words in alternatives(prints):
        try:
            msgspec.json.decode(text, type=type_of(words))
        except msgspec.ValidationError as error:
            problems.append(f"{words}: {error}")
        else:
            return
    raise AssertionError("; ".join(problems))


_STUB_HEAD = """\
# Values that commands print with `--output json`, as mypy sees them; made of `results.tsv` by
# `scripts/command_page.py`. There is no such module: it is imported where types are checked only.

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict
"""


def stub(printed: Iterable[str]) -> str:
    """Return all structs as types of dictionaries, and `Printed`: what some command prints.

    Args:
        printed: Words of `Command.prints`, of each command.
    """
    parts = [_STUB_HEAD]
    for one in declared().values():
        fields = [
            f"    {name}: {_annotation(each.type)}" for each in one.fields for name in each.names
        ]
        parts.append("\n".join([f"class {one.name}({one.base or 'TypedDict'}):", *fields]) + "\n")
    words = {words for prints in printed for words in alternatives(prints)}
    # Any dictionary would be a map; `Output.texts` prints those.
    names = sorted(_annotation(each) for each in words if not each.startswith(MAP))
    rows = [name for name in names if name.startswith("Sequence")]
    others = [name for name in names if name not in rows]
    for alias, types in (("PrintedRows", rows), ("Printed", ["PrintedRows", *others])):
        parts.append(f"{alias}: TypeAlias = (\n    " + "\n    | ".join(types) + "\n)\n")
    return "\n".join(parts)


def _annotation(words: str) -> str:
    if words.startswith(OPTIONAL):
        return f"NotRequired[{_annotation(words.removeprefix(OPTIONAL))}]"
    if words.endswith(OR_NULL):
        return f"{_annotation(words.removesuffix(OR_NULL))} | None"
    if words.startswith(NULLABLE):
        return f"{_annotation(words.removeprefix(NULLABLE))} | None"
    if words.startswith(LIST):
        return f"Sequence[{_annotation(words.removeprefix(LIST))}]"
    if words.startswith(MAP):
        return f"Mapping[str, {_annotation(words.removeprefix(MAP))}]"
    return WORDS[words].__name__ if words in WORDS else words
