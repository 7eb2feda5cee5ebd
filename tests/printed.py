"""JSON of commands is held against what they say that they print."""

from __future__ import annotations

from argparse import Namespace

from jbodlab.cli import output, program
from jbodlab.cli.command import Command
from scripts import command_page, results


def hold() -> None:
    """Hold all that commands print in this process against `results.tsv`, from now on."""
    carry_out, as_json = program._carry_out, output._json
    prints = [""]

    def carry_out_held(command: Command, options: Namespace) -> int:
        prints.append(command.prints)
        try:
            return carry_out(command, options)
        finally:
            prints.pop()

    def as_json_held(value: object, indent: int | None = None) -> str:
        text = as_json(value, indent)
        if prints[-1]:
            results.check(prints[-1], text)
        return text

    program._carry_out, output._json = carry_out_held, as_json_held


def check(command: str, text: str) -> None:
    """Hold what a process has printed against what its command says that it prints.

    Args:
        command: Its words, as `topics list`.
        text: The JSON.

    Raises:
        AssertionError: it is something else.
    """
    prints = command_page.printed()[command]
    is_line = prints in results.declared() and results.declared()[prints].is_line
    for part in text.splitlines() if is_line else [text]:
        results.check(prints, part)
