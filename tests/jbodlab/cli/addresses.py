"""Commands that take an address."""

from __future__ import annotations

from jbodlab.cli.command import Command
from jbodlab.cli.program import commands_of, nouns, parser_of


def commands() -> dict[str, Command]:
    """Every command by its words."""
    found = {}
    for name, noun in nouns().items():
        each = commands_of(noun)
        if isinstance(each, Command):
            found[name] = each
        else:
            found |= {f"{name} {verb}": each[verb] for verb in each}
    return found


def options(path: str, command: Command) -> set[str]:
    actions = parser_of(path, command)._actions
    return {word for action in actions for word in action.option_strings}


COMMANDS = commands()
AT_ANY_ADDRESS = [
    path for path, each in COMMANDS.items() if "--bootstrap-server" in options(path, each)
]
