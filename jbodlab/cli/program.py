"""The program `jbodlab`: how a command line becomes a call.

Exit codes: 0 done; 1 failed; 2 a wrong call; 130 after Ctrl-C; 141 where the reader of stdout has
left. A command whose 1 or 2 means something else says so in its help.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from io import TextIOWrapper

from jbodlab.cli import command as declared
from jbodlab.cli.choice import choose
from jbodlab.cli.command import Command, add, named
from jbodlab.cli.command_line import INTERRUPTED
from jbodlab.cli.output import Output
from jbodlab.cli.parser import WRONG_USE, Parser, UsageError, suggestion
from jbodlab.vocabulary.errors import JbodlabError

FAILED = 1
PIPE_CLOSED = 141
NAME = "jbodlab"
GLOBAL_WITH_VALUE = ("--cluster", "--bootstrap-server", "--command-config", "--output")


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


def nouns() -> dict[str, str]:
    """Return the help of all nouns by their names."""
    return {name: text for group in declared.nouns().values() for name, text in group.items()}


def commands_of(noun: str) -> dict[str, Command]:
    """Return the commands of a noun by their words."""
    return {words: one for words, one in declared.commands().items() if words.split()[0] == noun}


def parser_of(command: Command) -> Parser:
    """Return the parser of a command, with the options that all commands have."""
    path, description = f"{NAME} {command.words}", command.value("text")
    parser = Parser(path, command.help, command.examples, description)
    add(parser, command.arguments)
    parser.rest = command.value("rest")
    add(parser.add_argument_group("common options"), command.common)
    return parser


def _run(words: list[str]) -> int:
    before, noun_name, words = _split(words)
    if noun_name is None:
        return _without_noun(before)
    known = nouns()
    if noun_name not in known:
        unknown = f"unknown command {noun_name!r}{suggestion(noun_name, known)}"
        return _refuse(NAME, unknown, WRONG_USE)
    found, verb = commands_of(noun_name), words[0] if words else None
    if noun_name in found:
        return _call(found[noun_name], before + words)
    if verb is None or verb in ("-h", "--help"):
        text = _help_of_noun(noun_name, known[noun_name], found)
        return _help(text, is_asked=verb is not None)
    path = f"{noun_name} {verb}"
    if path not in found:
        verbs = [one.split()[1] for one in found]
        unknown = f"unknown command {path!r}{suggestion(verb, verbs)}"
        return _refuse(f"{NAME} {noun_name}", unknown, WRONG_USE)
    return _call(found[path], before + words[1:])


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


def _call(command: Command, words: list[str]) -> int:
    """Carry out one command."""
    parser = parser_of(command)
    rest: list[str] = []
    if parser.rest and "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1 :]
    if "-h" in words or "--help" in words:
        print(parser.format_help(), end="", file=sys.stdout)
        return 0
    if "--version" in words:
        print(_version())
        return 0
    try:
        _refuse_global(parser, command.words, words)
        options = parser.parse_all(words)
        if parser.rest and not rest:
            raise UsageError(f"missing -- {parser.rest}")
        options.rest, options.verb = rest, command.words.split()[-1]
        return _carry_out(command, options)
    except UsageError as error:
        if place := command.value("refused"):
            named(place)(words, str(error))
        return _refuse(parser.prog, str(error), int(command.value("wrong use", f"{WRONG_USE}")))
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
    for heading, group in declared.nouns().items():
        lines += ["", f"{heading}:"]
        lines += [f"  {name:<11} {text}" for name, text in group.items()]
    lines += ["", f"`{NAME} COMMAND --help` shows options and examples."]
    return "\n".join(lines)


def _help_of_noun(name: str, text: str, found: dict[str, Command]) -> str:
    lines = [
        f"{text[0].upper()}{text[1:]}.",
        "",
        f"usage: {NAME} {name} VERB [OPTION ...]",
        "",
    ]
    lines += [f"  {words.split()[1]:<11} {one.help}" for words, one in found.items()]
    lines += ["", f"`{NAME} {name} VERB --help` shows options and examples."]
    return "\n".join(lines)
