"""The declaration of a command.

The module of a noun has either `COMMAND`, a command of its own such as `jbodlab status`, or
`VERBS`, commands by their verb such as `list` of `jbodlab topics list`. A module is imported when
its noun is on the command line, so it imports on top only what its arguments need; `run` imports
the rest.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Coroutine
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser


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


def no_arguments(_parser: Parser) -> None:
    """Add nothing: the command has only the options that all commands have."""


class Command(NamedTuple):
    """One command.

    Attributes:
        help: One line, without a full stop.
        run: Carries the command out; returns the exit code, or the coroutine that does. An
            expected failure is a `JbodlabError`: the program prints its one line and exits with 1.
        arguments: Adds the arguments to the command's parser.
        examples: Command lines without the program's name.
        about: Which cluster it is about.
        prints: Type of what `--output json` prints, in the words of `results.tsv`, such as
            `list of Config`; empty where that option is not accepted.
        asks: Whether it destroys or moves something, so that it has `--yes`; `run` calls
            `output.confirm(question, yes=options.yes)` first.
        wrong_use: Exit code of a wrong call.
        refused: Where it is there, it is told the words of a wrong call, and why they are wrong.
        rest: Where not empty, the words behind `--` are kept in `options.rest`; their name in the
            usage, such as `COMMAND`.
    """

    help: str
    run: Callable[[Namespace, Output], int | Coroutine[Any, Any, int]]
    arguments: Callable[[Parser], None] = no_arguments
    examples: tuple[str, ...] = ()
    about: About = About.NOTHING
    prints: str = ""
    asks: bool = False
    wrong_use: int = 2
    refused: Callable[[list[str], str], None] | None = None
    rest: str = ""


servers_command = partial(Command, about=About.SERVERS)
"""A command about any Kafka-compatible cluster."""
