"""The program `jbodlab`: one table of nouns, and how a command line becomes a call.

Exit codes: 0 done; 1 failed; 2 a wrong call; 130 after Ctrl-C; 141 where the reader of stdout has
left. A command whose 1 or 2 means something else says so in its help.
"""

from __future__ import annotations

import importlib
import os
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from types import ModuleType
from typing import Any, NamedTuple

from jbodlab.cli.choice import DEFAULT_CLUSTER, choose, cluster_name
from jbodlab.cli.command import About, Command
from jbodlab.cli.command_line import INTERRUPTED
from jbodlab.cli.output import Output
from jbodlab.cli.parser import WRONG_USE, Parser, UsageError, suggestion
from jbodlab.cli.program_names import name_of
from jbodlab.vocabulary.errors import JbodlabError

FAILED = 1
PIPE_CLOSED = 141
NAME = "jbodlab"
GLOBAL_WITH_VALUE = ("--cluster", "--bootstrap-server", "--command-config", "--output")
_CLUSTER_HELP = {
    About.SERVERS: "a cluster of this machine (default: the only one)",
    About.MACHINE: "which cluster (default: the only one)",
    About.NEW: f"its name (default: {DEFAULT_CLUSTER})",
    About.EITHER: "which cluster (default: the only one)",
}


class Noun(NamedTuple):
    """One noun.

    Attributes:
        help: One line.
        place: The module with its `COMMAND` or `VERBS`, or `MODULE:NAME` of a command in a module
            that has those of several nouns.
        elsewhere: Places of the verbs that are in none of that module's `VERBS`.
    """

    help: str
    place: str
    elsewhere: Mapping[str, str] = {}


_CLUSTERS = "lab.commands.cluster_nouns"
_FAULTS = "lab.commands.fault_nouns"

GROUPS: dict[str, dict[str, Noun]] = {
    "A cluster": {
        "demo": Noun("start a cluster, break a disk, show what happens", f"{_FAULTS}:DEMO"),
        "up": Noun("start a cluster and leave it running", f"{_CLUSTERS}:UP"),
        "serve": Noun("start a cluster with an HTTP API", f"{_CLUSTERS}:SERVE"),
        "down": Noun("stop a cluster and remove it", f"{_CLUSTERS}:DOWN"),
        "list": Noun("list the clusters of this machine", f"{_CLUSTERS}:LIST"),
        "status": Noun("show brokers, directories and leaders", f"{_CLUSTERS}:STATUS"),
        "logs": Noun("show what the servers have logged", f"{_CLUSTERS}:LOGS"),
        "start": Noun("start brokers that do not run", f"{_CLUSTERS}:START"),
        "stop": Noun("stop brokers in order", f"{_CLUSTERS}:STOP"),
        "kill": Noun("kill brokers with SIGKILL", f"{_CLUSTERS}:KILL"),
        "restart": Noun("stop brokers in order and start them again", f"{_CLUSTERS}:RESTART"),
        "controllers": Noun(
            "list, add and remove controllers, hand over", "lab.commands.controller_nouns"
        ),
        "ui": Noun("show a cluster on a live page", f"{_CLUSTERS}:UI"),
    },
    "Break and judge": {
        "inject": Noun("break a directory or a broker", f"{_FAULTS}:INJECT"),
        "heal": Noun("revert faults", f"{_FAULTS}:HEAL"),
        "faults": Noun("list open faults and kinds of faults", f"{_FAULTS}:FAULTS"),
        "run": Noun("break a disk while a program of yours runs", f"{_FAULTS}:RUN"),
        "rehearse": Noun("carry out a plan of faults under load", f"{_FAULTS}:REHEARSE"),
    },
    "Look and move": {
        "topics": Noun("list, describe, create, alter and delete topics", "admin_tool.topics"),
        "dirs": Noun("log directories: describe, revive, cordon, move", "admin_tool.dirs"),
        "reassign": Noun("move partitions as a JSON file says", "admin_tool.reassign"),
        "storage": Noun(
            "format, verify, repair and dump log directories",
            "storage_tool.commands",
            {"repair": "admin_tool.repair"},
        ),
    },
    "Records and groups": {
        "records": Noun("produce and consume records", "admin_tool.records"),
        "groups": Noun("list, describe, reset and delete groups", "admin_tool.groups"),
        "transactions": Noun("list, describe and end transactions", "admin_tool.transactions"),
        "configs": Noun("describe and alter configs", "admin_tool.configs"),
        "offsets": Noun("show the offsets of partitions", "admin_tool.offsets"),
    },
    "Users and rights": {
        "acls": Noun("list, add and remove access control entries", "admin_tool.acls"),
        "users": Noun("list, add and remove users with passwords", "admin_tool.users"),
    },
    "Understand": {
        "replay": Noun("replay a metadata log into tables and a report", "analytics.nouns:REPLAY"),
        "why": Noun("tell why a partition or broker is as it is", "analytics.nouns:WHY"),
        "what-if": Noun("tell what a failure would do", "jbodlab.what_if.command"),
        "completion": Noun("print completions for bash, zsh or fish", "lab.commands.completion"),
    },
}
"""Nouns by the heading under which the help lists them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        # Characters that a terminal cannot show are escaped.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Nobody else may write what a command makes; who may read it is for the user to say.
    os.umask(os.umask(0o077) | 0o022)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def nouns() -> dict[str, Noun]:
    """Return all nouns by their names."""
    return {name: noun for group in GROUPS.values() for name, noun in group.items()}


def commands_of(noun: Noun) -> Command | dict[str, Command]:
    """Return the command of a noun, or its commands by their verbs; imports their modules."""
    found = _at(noun.place)
    if isinstance(found, Command):
        return found
    return {**found, **_elsewhere(noun)}


def _elsewhere(noun: Noun) -> dict[str, Command]:
    return {verb: _at(place) for verb, place in noun.elsewhere.items()}


def _at(place: str) -> Any:
    name, _, attribute = place.partition(":")
    module = importlib.import_module(name_of(name))
    return getattr(module, attribute) if attribute else _of(module)


def _of(module: ModuleType) -> Any:
    return getattr(module, "COMMAND", None) or module.VERBS


def parser_of(path: str, command: Command) -> Parser:
    """Return the parser of a command, with the options that all commands have.

    Args:
        path: Noun and verb, such as `topics list`.
        command: The command of these words.
    """
    parser = Parser(f"{NAME} {path}", command.help, command.examples)
    command.arguments(parser)
    parser.rest = command.rest
    common = parser.add_argument_group("common options")
    if command.about is not About.NOTHING:
        common.add_argument(
            "--cluster", type=cluster_name, metavar="NAME", help=_CLUSTER_HELP[command.about]
        )
    if command.about is About.SERVERS:
        common.add_argument(
            "--bootstrap-server", metavar="HOST:PORT", help="the address of any cluster"
        )
        common.add_argument(
            "--command-config",
            metavar="FILE",
            help="properties of a Java client, such as security.protocol",
        )
    if command.asks:
        common.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    if command.prints:
        common.add_argument(
            "--output", choices=("text", "json"), default="text", help="default: text"
        )
    common.add_argument("-h", "--help", action="store_true", help="print this text")
    common.add_argument("--version", action="store_true", help=SUPPRESS)
    return parser


def _run(words: list[str]) -> int:
    before, noun_name, words = _split(words)
    if noun_name is None:
        return _without_noun(before)
    known = nouns()
    if noun_name not in known:
        unknown = f"unknown command {noun_name!r}{suggestion(noun_name, known)}"
        return _refuse(NAME, unknown, WRONG_USE)
    noun = known[noun_name]
    verb = words[0] if words else None
    if verb is not None and verb in noun.elsewhere:
        return _call(f"{noun_name} {verb}", _at(noun.elsewhere[verb]), before + words[1:])
    found = _at(noun.place)
    if isinstance(found, Command):
        return _call(noun_name, found, before + words)
    if verb is None or verb in ("-h", "--help"):
        everything = {**found, **_elsewhere(noun)}
        return _help(_help_of_noun(noun_name, noun, everything), is_asked=verb is not None)
    if verb not in found:
        verbs = (*found, *noun.elsewhere)
        unknown = f"unknown command '{noun_name} {verb}'{suggestion(verb, verbs)}"
        return _refuse(f"{NAME} {noun_name}", unknown, WRONG_USE)
    return _call(f"{noun_name} {verb}", found[verb], before + words[1:])


def _split(words: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Return the options before the noun, the noun, and what follows it."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        index += 2 if words[index] in GLOBAL_WITH_VALUE else 1
    noun = words[index] if index < len(words) else None
    return words[:index], noun, words[index + 1 :]


def _without_noun(options: list[str]) -> int:
    if "--version" in options:
        print(_version())
        return 0
    unknown = [word for word in options if word not in ("-h", "--help")]
    if unknown:
        known = ("--help", "--version", *GLOBAL_WITH_VALUE)
        message = f"unknown option {unknown[0]}{suggestion(unknown[0], known)}"
        if unknown[0].partition("=")[0] in GLOBAL_WITH_VALUE:
            message = "missing command"
        return _refuse(NAME, message, WRONG_USE)
    return _help(_help_of_all(), is_asked=bool(options))


def _help(text: str, *, is_asked: bool) -> int:
    """Print a help where it was asked for; without a command it is what a wrong call is told."""
    print(text, file=sys.stdout if is_asked else sys.stderr)
    return 0 if is_asked else WRONG_USE


def _call(path: str, command: Command, words: list[str]) -> int:
    """Carry out one command."""
    parser = parser_of(path, command)
    rest: list[str] = []
    if command.rest and "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1 :]
    if "-h" in words or "--help" in words:
        print(parser.format_help(), end="", file=sys.stdout)
        return 0
    if "--version" in words:
        print(_version())
        return 0
    try:
        _refuse_global(parser, path, words)
        options = parser.parse_all(words)
        if command.rest and not rest:
            raise UsageError(f"missing -- {command.rest}")
        options.rest = rest
        return _carry_out(command, options)
    except UsageError as error:
        if command.refused is not None:
            command.refused(words, str(error))
        return _refuse(parser.prog, str(error), command.wrong_use)
    except JbodlabError as error:
        sys.stdout.flush()
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED


def _refuse_global(parser: Parser, path: str, words: list[str]) -> None:
    """Refuse options that other commands have.

    Raises:
        UsageError: there is one among the words.
    """
    for word in words:
        name = word.partition("=")[0]
        if name in GLOBAL_WITH_VALUE and name not in parser.option_names():
            raise UsageError(f"{path} does not take {name}")


def _carry_out(command: Command, options: Namespace) -> int:
    is_json = getattr(options, "output", "text") == "json"
    output = Output(is_json=is_json)
    choose(command, options, output)
    code = command.run(options, output)
    if isinstance(code, int):
        return code
    from jbodlab.runtime import event_loop

    return event_loop.run(code)


def _refuse(program: str, message: str, code: int) -> int:
    print(f"{program}: {message}", file=sys.stderr)
    print(f"try `{program} --help`", file=sys.stderr)
    return code


def _version() -> str:
    from importlib import metadata

    return f"{NAME} {metadata.version(NAME)}"


def _help_of_all() -> str:
    lines = ["A Kafka-compatible cluster on this machine whose disks may be broken.", ""]
    lines.append(f"usage: {NAME} COMMAND [VERB] [OPTION ...]")
    for heading, group in GROUPS.items():
        lines += ["", f"{heading}:"]
        lines += [f"  {name:<11} {noun.help}" for name, noun in group.items()]
    lines += ["", f"`{NAME} COMMAND --help` shows options and examples."]
    return "\n".join(lines)


def _help_of_noun(name: str, noun: Noun, verbs: dict[str, Command]) -> str:
    lines = [
        f"{noun.help[0].upper()}{noun.help[1:]}.",
        "",
        f"usage: {NAME} {name} VERB [OPTION ...]",
        "",
    ]
    lines += [f"  {verb:<11} {command.help}" for verb, command in verbs.items()]
    lines += ["", f"`{NAME} {name} VERB --help` shows options and examples."]
    return "\n".join(lines)
