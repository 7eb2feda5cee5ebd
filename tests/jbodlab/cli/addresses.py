"""Commands that take an address."""

from __future__ import annotations

from jbodlab.cli.command import Command, commands
from jbodlab.cli.program import parser_of


def options(command: Command) -> set[str]:
    return {word for action in parser_of(command)._actions for word in action.option_strings}


AT_ANY_ADDRESS = [
    words for words, each in commands().items() if "--bootstrap-server" in options(each)
]
