"""`jbodlab completion`: what a shell needs to complete commands, options and their values.

The script asks `jbodlab completion clusters`, `brokers` or `targets` for the values that change.
"""

from __future__ import annotations

import argparse
import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jbodlab.cli import program
from jbodlab.cli.command import Command
from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser


def _targets(cluster: ClusterState) -> Iterator[str]:
    for node in cluster.brokers:
        yield f"broker-{node.node_id}"
        yield from (f"broker-{node.node_id}/{1 + index}" for index in range(len(node.log_dirs)))


LISTED: Mapping[str, Callable[[ClusterState], Iterable[str]]] = {
    "clusters": lambda cluster: [cluster.name],
    "brokers": lambda cluster: [f"broker-{node.node_id}" for node in cluster.brokers],
    "targets": _targets,
}
"""Questions of a script, and the part of each running cluster in the answer."""

_LIST_OF = {"cluster": "clusters", "nodes": "brokers", "target": "targets", "fail": "targets"}
"""Arguments, by their names, that have such values."""

_ASK = "jbodlab completion {} 2>/dev/null"
FUNCTIONS = {
    "bash": '_jbodlab_{0}() {{ compgen -W "$({1})" -- "$1"; }}',
    "zsh": '_jbodlab_{0}() {{ compadd -- ${{(f)"$({1})"}}; }}',
    "fish": "",
}
"""Functions that a script begins with, by the shell."""
WORDS = (*FUNCTIONS, *LISTED)


def run(options: Namespace, output: Output) -> int:
    """Print completions for bash, zsh or fish; returns the exit code."""
    if options.shell in LISTED:
        for word in _listed(options.shell):
            output.line(word)
        return 0
    output.line(script(options.shell))
    return 0


def _listed(what: str) -> list[str]:
    from jbodlab.cli import lab_state

    clusters = lab_state.running_clusters(os.environ, os.geteuid())
    return list(dict.fromkeys(word for each in clusters for word in LISTED[what](each)))


def script(shell: str) -> str:
    """Return what the shell loads."""
    import shtab

    functions = [FUNCTIONS[shell].format(what, _ASK.format(what)) for what in LISTED]
    text: str = shtab.complete(_whole_parser(), shell, preamble="\n".join(functions))
    return text


def _whole_parser() -> argparse.ArgumentParser:
    """Return a parser of all commands, with what completes their arguments."""
    top = Parser(program.NAME, "jbodlab")
    nouns = _subcommands(top)
    for name, text in program.nouns().items():
        found = program.commands_of(name)
        if name in found:
            _add(nouns, found[name])
            continue
        parser = Parser(f"{program.NAME} {name}", text)
        nouns.add_parser(name, help=text, made=parser)
        verbs = _subcommands(parser)
        for command in found.values():
            _add(verbs, command)
    return top


def _subcommands(parser: argparse.ArgumentParser) -> Any:
    given: Any = lambda made, **_: made  # noqa: E731 - argparse calls it as a class
    return parser.add_subparsers(parser_class=given)


def _add(subcommands: Any, command: Command) -> None:
    parser = program.parser_of(command)
    for action in parser._actions:
        _set_completion(action)
    name = command.words.split()[-1]
    subcommands.add_parser(name, help=command.help, made=parser)


def _set_completion(action: argparse.Action) -> None:
    import shtab

    from fault_injection import kinds
    from lab.plan import plans

    completed: Any = action
    if what := _LIST_OF.get(action.dest):
        name = f"_jbodlab_{what}"
        completed.complete = {"bash": name, "zsh": name, "fish": f"({_ASK.format(what)})"}
    elif action.dest == "kind" and action.choices is None:
        action.choices = list(kinds.KINDS)
    elif action.dest == "plan":
        action.choices = list(plans.shipped())
    elif action.metavar == "DIR":
        completed.complete = shtab.DIRECTORY
    elif action.metavar in ("FILE", "PLAN"):
        completed.complete = shtab.FILE
