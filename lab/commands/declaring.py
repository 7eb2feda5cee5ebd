"""Parts that the commands of the lab have in common."""

from __future__ import annotations

import argparse
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from jbodlab.cli.command import named
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from lab.cluster.spec import SETTINGS, Form, On, option_of
from lab.errors import LabError
from lab.machine.interrupts import Interrupts


def here(options: Namespace, output: Output, place: str) -> int:
    """Carry out a command on this machine by a function; returns the exit code.

    The function takes options, output and the signals that end the command.

    Raises:
        LabError: this machine does not run Linux.
    """
    if sys.platform != "linux":
        raise LabError(
            f"clusters of jbodlab need Linux, and this is {sys.platform}; in a clone "
            "`docker compose up` starts one in containers"
        )
    return anywhere(options, output, place)


def anywhere(options: Namespace, output: Output, place: str) -> int:
    """Do the same on every machine: the command works without a cluster of this one."""
    interrupts = Interrupts()
    # The servers' user must be able to enter the folders that are made here.
    os.umask(0o022)
    interrupts.install()
    code: int = named(place)(options, output, interrupts)
    return code


def fault_words(parser: Parser) -> None:
    """Add the words that describe a fault."""
    from fault_injection import kinds

    group = parser.add_argument_group("the fault")
    for word, (metavar, text) in kinds.PARAMETERS.items():
        group.add_argument(f"--{word}", metavar=metavar, help=text, dest=f"word_{word}")


def settings(parser: Parser, command: str) -> None:
    """Add the settings of a cluster that a command has as options: a member of `On`."""
    for name, one in SETTINGS.items():
        if On[command.upper()] not in one.on:
            continue
        option = option_of(name)
        how: Mapping[str, Any] = _HOW.get(one.form, {})
        if one.form is Form.NUMBER:
            how = {"type": number(one.most_of_option or one.most)}
        if one.form is Form.WORD:
            how = {"choices": one.words}
        if one.form is Form.TEXT:
            parser.dashed = (*parser.dashed, option)
        shown: dict[str, Any] = {} if one.metavar is None else {"metavar": one.metavar}
        parser.add_argument(option, dest=name, help=one.help, **how, **shown)


def setting(text: str) -> tuple[str, str]:
    """Return a setting's key and value, as an argument's type.

    Raises:
        ArgumentTypeError: it is no setting.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE, got {text!r}")
    return key.strip(), value


def number(most: int, noun: str = "a number") -> Callable[[str], int]:
    """Return what reads a number from 1 on, as an argument's type."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"expected {noun} from 1 to {most}, got {text!r}")
        return int(text)

    return read


count = number(100_000)
port = number(65_535, "a port")
repeats = number(1000)


def mebibytes(text: str) -> int:
    """Return a size in MiB, rounded down, at least 1, as an argument's type.

    Raises:
        ArgumentTypeError: it is not a size.
    """
    if text.isascii() and text.isdecimal():
        return count(text)
    from fault_injection import kinds

    try:
        return max(1, kinds.size_bytes(text) >> 20)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_HOW: Mapping[Form, Mapping[str, Any]] = {
    Form.PORT: {"type": port},
    Form.USER: {"type": int},
    Form.SIZE: {"type": mebibytes},
    Form.FLAG: {"action": "store_true"},
    Form.TEXT: {"default": ""},
    Form.SETTINGS: {"type": setting, "action": "append", "default": []},
}
