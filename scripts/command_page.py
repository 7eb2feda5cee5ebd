"""Write what `--output json` prints: tables in `docs/commands.md`, JSON Schema, types for mypy.

    .venv/bin/python scripts/command_page.py

All are made from `jbodlab/cli/results.tsv` and from what commands say that they print. A line
`<!-- output: COMMAND -->` of the page begins what is written anew, `<!-- end -->` ends it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scripts.results import Declared, Fields

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "commands.md"
SCHEMA = ROOT / "docs" / "output.schema.json"
STUB = ROOT / "jbodlab" / "cli" / "results.pyi"
_MADE = re.compile(r"<!-- output: ([^\n]+) -->\n.*?<!-- end -->", re.DOTALL)


def printed() -> dict[str, str]:
    """Return what each command prints, by its words."""
    from jbodlab.cli.command import commands

    return {words: one.prints for words, one in commands().items() if one.prints}


def schema() -> str:
    """Return the JSON Schema as the file has it: a property for each command."""
    import msgspec

    from scripts import results

    types = {
        words: results.type_of(words)
        for prints in printed().values()
        for words in results.alternatives(prints)
    }
    found, parts = msgspec.json.schema_components(types.values(), ref_template="#/$defs/{name}")
    by_words = dict(zip(types, found, strict=True))
    properties = {}
    for name, prints in printed().items():
        several = [by_words[words] for words in results.alternatives(prints)]
        properties[name] = several[0] if len(several) == 1 else {"anyOf": several}
    return "\n".join(
        [
            "{",
            '"$schema": "https://json-schema.org/draft/2020-12/schema",',
            '"title": "What commands print with --output json, by their words",',
            '"type": "object",',
            '"additionalProperties": false,',
            f'"properties": {_lines(properties)},',
            f'"$defs": {_lines(parts)}',
            "}\n",
        ]
    )


def stub() -> str:
    """Return the types by which mypy sees what commands print."""
    from scripts import results

    return results.stub(printed().values())


def _lines(found: dict[str, Any]) -> str:
    """Return an object as JSON with a line for each of its values."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    return "{\n" + ",\n".join(lines) + "\n}"


def page(text: str) -> str:
    """Return the page with all tables made anew."""
    shown: dict[str, str] = {}
    return _MADE.sub(
        lambda match: f"<!-- output: {match[1]} -->\n{_tables(match[1], shown)}\n<!-- end -->", text
    )


def _tables(commands: str, shown: dict[str, str]) -> str:
    """Return what some commands print alike; a struct that another one prints is named."""
    from scripts import results

    names = ", ".join(f"`{name}`" for name in commands.split(", "))
    (prints,) = {printed()[name] for name in commands.split(", ")}
    lines: list[str] = []
    for words in results.alternatives(prints):
        name = words.removeprefix(results.LIST).removeprefix(results.MAP)
        one = results.declared().get(name)
        what = "a list of objects" if words.startswith(results.LIST) else "an object"
        if one is None:
            lines += [f"{names} print an object with a text for each server.", ""]
        elif name in shown:
            lines += [f"{names} prints {what}, as {shown[name]} does.", ""]
        else:
            shown[name] = names
            what = "an object in each line" if one.is_line else what
            lines += [f"{names} prints {what}: {one.meaning[0].lower()}{one.meaning[1:]}.", ""]
            lines += ["| field | type | meaning |", "|---|---|---|", *_rows(one, "", {}), ""]
    return "\n".join(lines).strip("\n")


def _rows(one: Declared, path: str, seen: dict[str, str]) -> Iterator[str]:
    """Yield the fields of a struct, with those of structs in it; what is there already is named."""
    from scripts import results

    if one.name in seen:
        yield f"| `{path}…` | | as `{seen[one.name]}…` |"
        return
    seen[one.name] = path
    if one.base:
        yield from _rows(results.declared()[one.base], path, seen)
    for names, words, meaning in _gathered(one):
        shown = ", ".join(f"`{path}{name}`" for name in names)
        kind, inner, steps = _told(words)
        yield f"| {shown} | {kind} | {meaning} |"
        if inner is not None:
            for name in names:
                yield from _rows(inner, f"{path}{name}{steps}.", seen)


def _gathered(one: Declared) -> list[Fields]:
    """Return the fields of a struct: those of one type that need no explanation together."""
    found: dict[tuple[str, str], Fields] = {}
    for each in one.fields:
        has_own_row = each.meaning or _told(each.type)[1]
        key = (each.type, each.names[0] if has_own_row else "")
        before = found.get(key)
        found[key] = each._replace(names=before.names + each.names) if before else each
    return list(found.values())


def _told(words: str) -> tuple[str, Declared | None, str]:
    """Return a type for people, the struct in it, and the steps that lead there."""
    from scripts import results

    bare = words.removeprefix(results.OPTIONAL).removesuffix(results.OR_NULL)
    name, steps = bare, ""
    while name.startswith((results.LIST, results.MAP)):
        is_list = name.startswith(results.LIST)
        name = name.removeprefix(results.LIST if is_list else results.MAP)
        steps += "[]" if is_list else ".NAME"
    one = results.declared().get(name)
    is_one = bare == name
    told = bare.replace(name, ("object" if is_one else "objects") if one else name)
    told = told.replace("flag", "true or false").replace("list of any", "list")
    told = told.replace(f"{results.NULLABLE}text", f"text{results.OR_NULL}")
    told += " or null" if words.endswith(results.OR_NULL) else ""
    return f"{told}, or missing" if words.startswith(results.OPTIONAL) else told, one, steps


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    SCHEMA.write_text(schema(), "utf-8")
    STUB.write_text(stub(), "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
