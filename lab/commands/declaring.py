"""Parts that the commands of the lab have in common."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from lab.cluster.spec import SETTINGS, Form, On, option_of
from lab.errors import LabError
from lab.machine.interrupts import Interrupts

LAB = __package__.rpartition(".")[0]
"""The package of the lab, which has another name in a wheel."""


def carried_out_by(
    module: str, function: str = "run", *, anywhere: bool = False
) -> Callable[[Namespace, Output], int]:
    """Return the `run` of a command: a function of a module that is imported when it is called.

    The function takes options, output and the signals that end the command.

    Args:
        module: Name of a module of the lab, such as `commands.up`.
        function: The function's name.
        anywhere: Whether it works without a cluster of this machine, which has to run Linux.
    """

    def run(options: Namespace, output: Output) -> int:
        if sys.platform != "linux" and not anywhere:
            raise LabError(
                f"clusters of jbodlab need Linux, and this is {sys.platform}; in a clone "
                "`docker compose up` starts one in containers"
            )
        interrupts = Interrupts()
        # The servers' user must be able to enter the folders that are made here.
        os.umask(0o022)
        interrupts.install()
        carry_out = getattr(importlib.import_module(f"{LAB}.{module}"), function)
        code: int = carry_out(options, output, interrupts)
        return code

    return run


def add_nodes(parser: Parser, *, needed: bool, default: str = "") -> None:
    """Add the words for servers of a cluster."""
    text = "broker-1 or 1, controller-100, controller (the first one), or all"
    parser.add_argument(
        "nodes",
        nargs="+" if needed else "*",
        metavar="SERVER",
        help=text if needed else f"{text} (default: {default})",
    )


def add_settings(parser: Parser, command: On) -> None:
    """Add the settings of a cluster that a command has as options."""
    for name, one in SETTINGS.items():
        if command not in one.on:
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


def add_against(parser: Parser) -> None:
    """Add the engines that are compared with that of `add_settings`."""
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="ENGINE",
        help="run it on this engine as well, and compare; may be repeated",
    )


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
