"""A parser whose help has examples and whose errors suggest what was meant."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from typing import NoReturn

WRONG_USE = 2
"""Exit code of a wrong call."""

_UNKNOWN_CHOICE = re.compile(r"argument (?P<of>[^:]+): invalid choice: '(?P<word>[^']*)'")


class UsageError(Exception):
    """A wrong call; the text is one line."""


class Parser(argparse.ArgumentParser):
    """The arguments of one command.

    Options are never abbreviated. A wrong call raises `UsageError` for whoever parses.
    """

    def __init__(self, prog: str, summary: str, examples: Iterable[str] = ()) -> None:
        super().__init__(
            prog=prog,
            description=f"{summary}.",
            epilog="\n".join(["Examples:", *(f"  jbodlab {line}" for line in examples)])
            if examples
            else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )

    def error(self, message: str) -> NoReturn:
        """Refuse the call."""
        raise UsageError(_in_our_words(message))

    def parse_all(self, words: list[str]) -> argparse.Namespace:
        """Parse words of which each must be known.

        Raises:
            UsageError: one is not, or one is missing or wrong.
        """
        options, unknown = self.parse_known_args(words)
        if unknown:
            word = unknown[0]
            if word.startswith("-"):
                name = word.partition("=")[0]
                raise UsageError(f"unknown option {name}{suggestion(name, self.option_names())}")
            raise UsageError(f"unexpected argument {word!r}")
        return options

    def option_names(self) -> list[str]:
        """Return the names of all options, such as `--output`."""
        return [name for action in self._actions for name in action.option_strings]


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean X?)` for the known word that is closest, or an empty text."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]}?)" if close else ""


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
    return message.removeprefix("argument ")
