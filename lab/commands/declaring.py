"""What the commands of the lab have in common."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable

from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from lab.errors import LabError
from lab.interrupts import Interrupts

CONTROLLERS_MAX = 7
JVM_OPTIONS = "--jvm-options"

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
    text = "broker-1 or 1, controller, or all"
    parser.add_argument(
        "nodes",
        nargs="+" if needed else "*",
        metavar="BROKER",
        help=text if needed else f"{text} (default: {default})",
    )


def add_engine(parser: Parser) -> None:
    """Add what the nodes of a cluster run, and how."""
    parser.add_argument(
        "--engine",
        metavar="ENGINE",
        help="jbodlab, kafka:RELEASE such as kafka:4.3.1, or kafka:FOLDER of a distribution "
        "(default: $JBODLAB_ENGINE, else jbodlab)",
    )
    parser.add_argument(
        "--config",
        type=setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of all nodes, under Kafka's name; may be repeated",
    )
    parser.dashed = (JVM_OPTIONS,)
    parser.add_argument(
        JVM_OPTIONS,
        default="",
        metavar="OPTIONS",
        help="options of the JVM, such as '-Xmx1g' (kafka engines)",
    )
    parser.add_argument(
        "--controllers",
        type=number(CONTROLLERS_MAX),
        metavar="N",
        help="how many (kafka engines; default: 1)",
    )
    parser.add_argument(
        "--combined",
        action="store_true",
        help="every broker is a controller as well (kafka engines)",
    )


def add_security(parser: Parser) -> None:
    """Add how clients reach a cluster."""
    parser.add_argument(
        "--security",
        choices=("ssl", "mtls", "sasl_ssl"),
        metavar="SECURITY",
        help="close the cluster: ssl (clients only encrypt), mtls (they show certificates), or "
        "sasl_ssl (they log in)",
    )


def add_against(parser: Parser) -> None:
    """Add the engines that are compared with that of `add_engine`."""
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
