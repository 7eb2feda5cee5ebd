"""A parser whose help has examples and whose errors suggest what was meant."""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
from collections.abc import Iterable
from typing import NoReturn

WRONG_USE = 2
"""Exit code of a wrong call."""
WIDTH_MAX = 100

_ONE_OF = re.compile(r"one of the arguments (?P<names>.+) is required")
_UNKNOWN_CHOICE = re.compile(r"argument (?P<of>[^:]+): invalid choice: '(?P<word>[^']*)'")


class UsageError(Exception):
    """A wrong call; the text is one line."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help of at most 100 columns."""

    def __init__(self, prog: str) -> None:
        columns = shutil.get_terminal_size((WIDTH_MAX, 50)).columns
        super().__init__(prog, max_help_position=28, width=min(columns, WIDTH_MAX))


class Parser(argparse.ArgumentParser):
    """The arguments of one command.

    Options are never abbreviated. A wrong call raises `UsageError` for whoever parses.

    Attributes:
        rest: Arguments behind `--`, as the usage names them; empty where there are none.
        dashed: Options whose values are options of another program, and begin with a dash.
    """

    rest = ""
    dashed: tuple[str, ...] = ()

    def __init__(
        self, prog: str, summary: str, examples: Iterable[str] = (), description: str = ""
    ) -> None:
        super().__init__(
            prog=prog,
            description=description or f"{summary[0].upper()}{summary[1:]}.",
            epilog="\n".join(["Examples:", *(f"  jbodlab {line}" for line in examples)])
            if examples
            else None,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )

    def format_usage(self) -> str:
        """Return one line: the required options and the arguments."""
        arguments = [action for action in self._actions if not action.option_strings]
        options = [action for action in self._actions if action.option_strings and action.required]
        words = [self.prog, *map(_usage_of, arguments)]
        words += [f"{one.option_strings[-1]} {one.metavar or one.dest.upper()}" for one in options]
        words.append("[OPTION ...]")
        words += ["--", self.rest] if self.rest else []
        return f"usage: {' '.join(words)}\n"

    def format_help(self) -> str:
        """Return usage, description, arguments and examples."""
        self.usage = self.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Refuse the call."""
        raise UsageError(_in_our_words(message))

    def parse_all(self, words: list[str]) -> argparse.Namespace:
        """Parse words of which each must be known.

        Raises:
            UsageError: one is not, or one is missing or wrong.
        """
        options, unknown = self.parse_known_args(self._joined(words))
        if unknown:
            word = unknown[0]
            if word.startswith("-"):
                name = word.partition("=")[0]
                raise UsageError(f"unknown option {name}{suggestion(name, self.option_names())}")
            raise UsageError(f"unexpected argument {word!r}")
        return options

    def _joined(self, words: list[str]) -> list[str]:
        """Return words with values of `dashed` as `--option=value`, as argparse wants them."""
        found = list(words)
        own = self.option_names()
        for at in reversed(range(len(words) - 1)):
            if words[at] in self.dashed and words[at + 1].partition("=")[0] not in own:
                found[at : at + 2] = [f"{words[at]}={words[at + 1]}"]
        return found

    def option_names(self) -> list[str]:
        """Return the names of all options, such as `--output`."""
        return [name for action in self._actions for name in action.option_strings]


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean X?)` for the known word that is closest, or an empty text."""
    known = list(known)
    longer = [name for name in sorted(known) if len(word) > 1 and name.startswith(word)]
    close = longer or difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


def _usage_of(action: argparse.Action) -> str:
    if isinstance(action.metavar, tuple):
        name = " ".join(action.metavar)
    else:
        name = action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()
    match action.nargs:
        case "?":
            return f"[{name}]"
        case "*":
            return f"[{name} ...]"
        case "+":
            return f"{name} ..."
        case _:
            return name


def _in_our_words(message: str) -> str:
    if found := _UNKNOWN_CHOICE.match(message):
        choices = re.findall(r"'([^']*)'|([a-z][\w-]*)", message.partition("(choose from")[2])
        known = [quoted or plain for quoted, plain in choices]
        return (
            f"{found['of']}: unknown value {found['word']!r}{suggestion(found['word'], known)}; "
            f"expected one of {', '.join(known)}"
        )
    if message.startswith("the following arguments are required: "):
        return f"missing {message.partition(': ')[2]}"
    if found := _ONE_OF.fullmatch(message):
        return f"missing {' or '.join(found['names'].split())}"
    return message.removeprefix("argument ")
