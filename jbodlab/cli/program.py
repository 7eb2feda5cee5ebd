"""The program `jbodlab`: one table of nouns, and how a command line becomes a call.

Exit codes: 0 done; 1 failed; 2 a wrong call; 130 after Ctrl-C; 141 where the reader of stdout has
left. A command whose 1 or 2 means something else says so in its help.
"""

from __future__ import annotations

import importlib
import os
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Sequence
from typing import NamedTuple

from jbodlab.cli.choice import choose
from jbodlab.cli.command import About, Command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import WRONG_USE, Parser, UsageError, suggestion
from jbodlab.errors import JbodlabError
from jbodlab.program_names import name_of

FAILED = 1
INTERRUPTED = 130
PIPE_CLOSED = 141
NAME = "jbodlab"
GLOBAL_WITH_VALUE = ("--cluster", "--bootstrap-server", "--output")


class Noun(NamedTuple):
    """One noun.

    Attributes:
        help: One line.
        module: The module with its `COMMAND` or `VERBS`.
    """

    help: str
    module: str


GROUPS: dict[str, dict[str, Noun]] = {
    "A cluster": {
        "demo": Noun("start a cluster, break a disk, show what happens", "lab.commands.demo"),
        "up": Noun("start a cluster and leave it running", "lab.commands.up"),
        "down": Noun("stop a cluster and remove it", "lab.commands.down"),
        "list": Noun("list the clusters of this machine", "lab.commands.listing"),
        "status": Noun("show brokers, directories and leaders", "lab.commands.status"),
        "logs": Noun("show what the servers have logged", "lab.commands.logs"),
        "start": Noun("start brokers that do not run", "lab.commands.start"),
        "stop": Noun("stop brokers in order", "lab.commands.stop"),
        "kill": Noun("kill brokers with SIGKILL", "lab.commands.kill"),
        "restart": Noun("stop brokers in order and start them again", "lab.commands.restart"),
        "ui": Noun("show a cluster on a live page", "lab.commands.page"),
    },
    "Break and judge": {
        "inject": Noun("break a disk, a broker or a connection", "lab.commands.inject"),
        "heal": Noun("revert faults", "lab.commands.heal"),
        "faults": Noun("list faults and kinds of faults", "fault_injection.commands"),
        "run": Noun("break a disk while a program of yours runs", "lab.commands.running"),
        "rehearse": Noun("carry out a plan of faults under load", "lab.rehearsal.command"),
    },
    "Look and move": {
        "topics": Noun("list, describe, create, alter and delete topics", "admin_tool.topics"),
        "dirs": Noun("log directories: describe, revive, cordon, move", "admin_tool.dirs"),
        "reassign": Noun("move partitions as a JSON file says", "admin_tool.reassign"),
    },
    "Records and groups": {
        "records": Noun("produce and consume records", "admin_tool.records"),
        "groups": Noun("list, describe, reset and delete groups", "admin_tool.groups"),
        "configs": Noun("describe and alter configs", "admin_tool.configs"),
        "offsets": Noun("show the offsets of partitions", "admin_tool.offsets"),
    },
    "Files": {
        "storage": Noun("format, verify, repair and dump log directories", "storage_tool.commands"),
    },
    "Understand": {
        "replay": Noun("replay a metadata log into tables and a report", "analytics.start"),
        "why": Noun("tell why a partition or broker is as it is", "analytics.ask.why"),
        "what-if": Noun("tell what a failure would do", "analytics.ask.what_if"),
        "completion": Noun("print completions for bash, zsh or fish", "lab.commands.completion"),
    },
}
"""Nouns by the heading under which the help lists them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
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
    """Return the command of a noun, or its commands by their verbs; imports the noun's module."""
    module = importlib.import_module(name_of(noun.module))
    found: Command | dict[str, Command] = getattr(module, "COMMAND", None) or module.VERBS
    return found


def parser_of(path: str, command: Command) -> Parser:
    """Return the parser of a command, with the options that all commands have.

    Args:
        path: Noun and verb, such as `topics list`.
        command: The command of these words.
    """
    parser = Parser(f"{NAME} {path}", command.help, command.examples)
    command.arguments(parser)
    if command.rest:
        parser.usage = parser.format_usage().removeprefix("usage: ").rstrip() + (
            f" -- {command.rest}"
        )
    common = parser.add_argument_group("common options")
    if command.about is not About.NOTHING:
        common.add_argument("--cluster", metavar="NAME", help="a cluster of this machine")
    if command.about is About.SERVERS:
        common.add_argument(
            "--bootstrap-server", metavar="HOST:PORT", help="the address of any cluster"
        )
    if command.asks:
        common.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    if command.reads:
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
    found = commands_of(known[noun_name])
    if isinstance(found, Command):
        return _call(noun_name, found, before + words)
    verb = words[0] if words else None
    if verb is None or verb in ("-h", "--help"):
        print(_help_of_noun(noun_name, known[noun_name], found), file=sys.stdout)
        return 0 if verb is not None else WRONG_USE
    if verb not in found:
        unknown = f"unknown command '{noun_name} {verb}'{suggestion(verb, found)}"
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
    print(_help(), file=sys.stdout)
    return 0 if options else WRONG_USE


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
        options = parser.parse_all(words)
        if command.rest and not rest:
            raise UsageError(f"missing -- {command.rest}")
        options.rest = rest
        return _carry_out(command, options)
    except UsageError as error:
        return _refuse(parser.prog, str(error), command.wrong_use)
    except JbodlabError as error:
        sys.stdout.flush()
        print(f"{NAME}: {error}", file=sys.stderr)
        return FAILED


def _carry_out(command: Command, options: Namespace) -> int:
    output = Output(is_json=getattr(options, "output", "text") == "json")
    choose(command, options, output)
    return command.run(options, output)


def _refuse(program: str, message: str, code: int) -> int:
    print(f"{program}: {message}", file=sys.stderr)
    print(f"try `{program} --help`", file=sys.stderr)
    return code


def _version() -> str:
    from importlib import metadata

    return f"{NAME} {metadata.version(NAME)}"


def _help() -> str:
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
