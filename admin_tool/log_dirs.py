"""jbod-log-dirs: what lies in which log directory, and what an operator does about it.

    jbod-log-dirs --bootstrap-server LIST --describe [--broker-list 1,2] [--topic-list a,b]
    jbod-log-dirs --bootstrap-server LIST --describe --table | --watch
    jbod-log-dirs --bootstrap-server LIST revive --broker N --dir PATH
    jbod-log-dirs --bootstrap-server LIST cordon | uncordon --broker N --dir PATH[,PATH...]
    jbod-log-dirs --bootstrap-server LIST drain --broker N --dir PATH [--execute [--wait]]
    jbod-log-dirs --bootstrap-server LIST balance --plan | --execute [--wait] | --status | --cancel
                  [--broker N]

Each command has a module of its own in `admin_tool.log_dir_actions`, which runs it.

Exit codes: 0 done; 1 wrong usage or failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, Option, Parsed

OPTIONS = (
    *COMMON,
    Option(
        name="describe",
        help="Show the log directories; without --table as one line of JSON, as Kafka's tool does.",
    ),
    Option(
        name="broker-list",
        value="1,2,...",
        help="With --describe: the brokers to ask. Default: all of the cluster.",
    ),
    Option(
        name="topic-list",
        value="a,b,...",
        help="With --describe: the topics to show. Default: all.",
    ),
    Option(
        name="table",
        help="With --describe: a table for people: id, state, used, free and total space of each "
        "directory, its replicas, and the moves into it.",
    ),
    Option(name="watch", help="As --table, again and again, with the progress of moves."),
    Option(
        name="interval",
        value="seconds",
        help="With --watch: how long to wait between two tables. Default: 1.",
    ),
    Option(name="broker", value="id", help="The broker that a command is about."),
    Option(
        name="dir",
        value="path[,path...]",
        help="The log directory that a command is about, as in the broker's log.dirs; for "
        "cordon and uncordon also several, or * for all.",
    ),
    Option(name="plan", help="With balance: show the moves that it would make, and their effect."),
    Option(name="execute", help="With drain and balance: show the moves, and start them."),
    Option(name="wait", help="With --execute: stay until the moves are done, and show the effect."),
    Option(name="status", help="With balance: show the log directories and the moves under way."),
    Option(
        name="cancel",
        help="With balance: stop all moves between log directories; their replicas stay where they "
        "are.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: the module with its `run`, and the options that it needs and permits."""

    module: str
    summary: str
    required: tuple[str, ...] = ()
    permitted: tuple[str, ...] = ()
    asks_cluster: bool = True
    """Whether it cannot do without `--bootstrap-server`."""


DESCRIBE = Command(
    module="describe",
    summary="show the log directories",
    permitted=("describe", "broker-list", "topic-list", "table", "watch", "interval"),
)
COMMANDS: Mapping[str, Command] = {
    "revive": Command(
        module="revive",
        summary="bring a repaired directory of a running broker back online (jbodlab's brokers)",
        required=("broker", "dir"),
    ),
    "cordon": Command(
        module="cordon",
        summary="let no new replicas into directories; those that are there stay",
        required=("broker", "dir"),
    ),
    "uncordon": Command(
        module="cordon",
        summary="let new replicas in again",
        required=("broker", "dir"),
    ),
    "drain": Command(
        module="drain",
        summary="move everything in a directory to the other directories of its broker",
        required=("broker", "dir"),
        permitted=("execute", "wait"),
    ),
    "balance": Command(
        module="balance",
        summary="even out the bytes in the directories of a broker, or of each",
        permitted=("broker", "plan", "execute", "wait", "status", "cancel"),
    ),
}
"""Every command, by the word that names it."""

_ALWAYS = {option.name for option in COMMON}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return command.run(TOOL, argv)


def check(options: Parsed) -> Command:
    """Return the command asked for.

    Raises:
        UsageError: there is not exactly one, or the options do not go with it.
    """
    if not options.words:
        options.require("bootstrap-server", "describe")
        chosen, name = DESCRIBE, "describe"
    else:
        name, *rest = options.words
        if name not in COMMANDS or rest:
            wrong = rest[0] if name in COMMANDS else name
            raise UsageError(f"{wrong} is not a recognized command: {', '.join(COMMANDS)}")
        chosen = COMMANDS[name]
    if chosen.asks_cluster:
        options.require("bootstrap-server")
    options.require(*chosen.required)
    for given in options.values:
        if given not in _ALWAYS and given not in (*chosen.required, *chosen.permitted):
            raise UsageError(f'Option "[{given}]" can\'t be used with option "[{name}]"')
    return chosen


def _run(options: Parsed) -> int:
    chosen = check(options)
    # Loaded late, so that a wrong command line is answered at once.
    module = import_module(f"{__package__}.log_dir_actions.{chosen.module}")
    return int(module.run(options))


def _notes() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{one.summary}" for name, one in COMMANDS.items()]
    return "\n".join(["Commands, instead of --describe:", *lines])


TOOL = Tool(
    summary="This tool helps to query log directory usage on the specified brokers.",
    options=OPTIONS,
    run=_run,
    notes=_notes(),
)


if __name__ == "__main__":
    sys.exit(main())
