"""The declarations of all commands, read from `commands.tsv`.

A paragraph of the file is a command: its words and its help, then rows whose columns are parted by
tabs.

    run  ABOUT[, asks]  FUNCTION  PRINTS   which cluster it is about, what carries it out
    text        a line of the help, in which it stands instead of the command's help as a sentence
    rest        name of the words behind `--`, which are kept in `options.rest`
    wrong use   exit code of a wrong call, where it is not 2
    refused     function that is told the words of a wrong call, and why they are wrong
    +  FUNCTION WORD ...   adds arguments that are known only then: called with the parser and words
    [NAME]      the rows of the paragraph of this name
    $ ...       a call of it, as an example
    NAME METAVAR  FORM  HELP   an argument, or an option with all of its names

The options that all commands have, or those that are about the same, stand in `[all]`, `[servers]`
and so on, `[asks]` and `[prints]`. `asks`: it destroys or moves something, and calls
`output.confirm(question, yes=options.yes)` first. PRINTS is a type of `results.tsv`, such as
`list of Config`; without it there is no `--output json`. A metavar is `[NAME]` where it may be left
out; with `...` there may be several, `NAME+` are several behind one option. `| ` before options: of
these only one may be given. FORM is `flag`, or the type of a value: `text`, `integer`, `path`, a
function that reads it, or `one of` words, or of what a module names; then ` = DEFAULT`, ` as NAME`
in the options, ` required`. A function is `MODULE:NAME`. Its module is imported when it is needed:
that of `run` and of `refused` when they are called.

A paragraph that begins with `== ` has the nouns that the help shows below a heading.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from argparse import SUPPRESS, Namespace
from collections.abc import Coroutine, Iterator, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jbodlab.cli.program_names import name_of

if TYPE_CHECKING:
    from jbodlab.cli.output import Output

Row = tuple[str, ...]

_KEYS = ("run", "text", "rest", "wrong use", "refused")
_TYPES = {"text": str, "integer": int, "path": Path}
_ARGUMENT = re.compile(
    r"(?P<names>\S+(?: -\S+)*)"
    r"(?: (?P<may_miss>\[)?(?P<metavar>(?!\.\.\.).+?))?(?P<several> \.\.\.)?\]?"
)
_FORM = re.compile(r"(.+?)(?: = (?P<default>.*?))?(?: as (?P<dest>\w+))?(?P<required> required)?")


class About(Enum):
    """Which cluster a command is about.

    Members:
        NOTHING: None: files, plans, shells.
        SERVERS: Any Kafka-compatible cluster, by `--bootstrap-server`, or one of this machine by
            `--cluster`. `run` finds the addresses in `options.bootstrap_server`, the name of a
            cluster of this machine in `options.cluster`, and the file with the client's
            properties, or None, in `options.command_config`.
        MACHINE: A cluster of this machine, by `--cluster`. `run` finds its name in
            `options.cluster`.
        NEW: A cluster of this machine that need not exist yet, by `--cluster`; where none is named
            it is the default one.
        EITHER: A cluster of this machine, by `--cluster`, or what another argument names: `run`
            calls `choice.machine_cluster` where it is a cluster.
    """

    NOTHING = "nothing"
    SERVERS = "servers"
    MACHINE = "machine"
    NEW = "new"
    EITHER = "either"


class Command(NamedTuple):
    """One command.

    Attributes:
        words: Its noun and its verb, such as `topics list`.
        help: One line, without a full stop.
        about: Which cluster it is about.
        prints: Type of what `--output json` prints; empty where that option is not accepted.
        arguments: Rows of arguments, and of what adds some.
        common: Rows of the options that commands have as others of its sort do.
        examples: Command lines without the program's name.
        rows: All other rows, by their keys.
    """

    words: str
    help: str
    about: About
    prints: str
    arguments: Sequence[Row]
    common: Sequence[Row]
    examples: Sequence[str]
    rows: dict[str, list[Row]]

    def value(self, key: str, default: str = "") -> str:
        """Return the values of a key's rows, in lines."""
        return "\n".join(row[0] for row in self.rows.get(key, ())) or default

    def run(self, options: Namespace, output: Output) -> int | Coroutine[Any, Any, int]:
        """Carry it out; returns the exit code, or the coroutine that does.

        Raises:
            JbodlabError: an expected failure, whose one line is printed.
        """
        place, *words = self.rows["run"][0][1].split()
        code: int | Coroutine[Any, Any, int] = named(place)(options, output, *words)
        return code


def named(place: str) -> Any:
    """Return what a module has, such as `admin_tool.acls:add`; imports it."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(name_of(module)), name)


def add(parser: Any, rows: Sequence[Row]) -> None:
    """Add the arguments of rows to a parser, or to a group of its arguments."""
    exclusive = None
    for first, *row in rows:
        if first == "+":
            place, *words = row[0].split()
            named(place)(parser, *words)
            continue
        to = parser
        if first.startswith("| "):
            to = exclusive = exclusive or parser.add_mutually_exclusive_group()
        names, how = _argument(first.removeprefix("| "), *row)
        to.add_argument(*names, **how)


def nouns() -> dict[str, dict[str, str]]:
    """Return the nouns and their help, by the heading under which the help lists them."""
    return _read()[0]


def commands() -> dict[str, Command]:
    """Return all commands by their words."""
    return _read()[1]


@cache
def _read() -> tuple[dict[str, dict[str, str]], dict[str, Command]]:
    data = pkgutil.get_data(__package__, "commands.tsv")
    assert data is not None
    groups: dict[str, dict[str, str]] = {}
    shared: dict[str, list[Row]] = {}
    found: dict[str, Command] = {}
    for paragraph in data.decode().strip().split("\n\n"):
        head, *rows = (tuple(line.split("\t")) for line in paragraph.split("\n"))
        if head[0].startswith("== "):
            groups[head[0].removeprefix("== ")] = {row[0]: row[1] for row in rows}
        elif head[0].startswith("["):
            shared[head[0]] = rows
        else:
            found[head[0]] = _command(head, list(_all(rows, shared)), shared)
    return groups, found


def _all(rows: Sequence[Row], shared: dict[str, list[Row]]) -> Iterator[Row]:
    for row in rows:
        if row[0].startswith("["):
            yield from _all(shared[row[0]], shared)
        else:
            yield row


def _command(head: Row, rows: list[Row], shared: dict[str, list[Row]]) -> Command:
    keys: dict[str, list[Row]] = {}
    arguments, examples = [], []
    for row in rows:
        if row[0].startswith("$ "):
            examples.append(row[0].removeprefix("$ "))
        elif row[0] in _KEYS:
            keys.setdefault(row[0], []).append(row[1:])
        else:
            arguments.append(row)
    about, _, *prints = keys["run"][0]
    common = [*about.split(", "), *(["prints"] if prints else []), "all"]
    return Command(
        words=head[0],
        help=head[1],
        about=About(about.partition(",")[0]),
        prints="".join(prints),
        arguments=arguments,
        common=[row for name in common for row in _all(shared.get(f"[{name}]", ()), shared)],
        examples=examples,
        rows=keys,
    )


def _argument(first: str, form: str, text: str) -> tuple[list[str], dict[str, Any]]:
    """Return the names of an argument, and what else `add_argument` takes."""
    one, kind = _ARGUMENT.fullmatch(first), _FORM.fullmatch(form)
    assert one is not None, first
    assert kind is not None, form
    names, metavar = one["names"].split(), one["metavar"]
    is_option = first.startswith("-")
    # A text that is not to be shown is known by its identity.
    how: dict[str, Any] = {"help": SUPPRESS if text == SUPPRESS else text or None}
    if kind[1] == "flag":
        how["action"] = "store_true"
    elif kind[1].startswith("one of "):
        words = kind[1].removeprefix("one of ").split()
        how["choices"] = tuple(named(words[0])) if ":" in words[0] else words
    else:
        how["type"] = _TYPES.get(kind[1]) or named(kind[1])
    if is_option and metavar and " " in metavar:
        how |= {"nargs": 2, "metavar": tuple(metavar.split())}
    elif metavar:
        how["metavar"] = metavar.removesuffix("+")
    if is_option and metavar and metavar.endswith("+"):
        how |= {"action": "extend" if one["several"] else "store", "nargs": "+", "default": []}
    elif one["several"] and is_option:
        how |= {"action": "append", "default": []}
    elif one["several"]:
        how["nargs"] = "*" if one["may_miss"] else "+"
    elif one["may_miss"]:
        how["nargs"] = "?"
    how |= {key: kind[key] for key in ("default", "dest") if kind[key] is not None}
    return names, how | ({"required": True} if kind["required"] else {})
