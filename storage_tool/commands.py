"""`jbodlab storage`: log directories and the files in them; none of this needs a broker."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace

from jbodlab.cli.output import Output

SIZE_MAX = 2**31 - 1


def format_directories(options: Namespace, _: Output) -> int:
    """Format the log directories of a node; returns the exit code."""
    from storage_tool import format_command

    # Options of Kafka's tool that `jbod-storage` refuses.
    options.add_scram, options.standalone, options.initial_controllers = [], False, None
    return format_command.run(options)


def info(options: Namespace, output: Output) -> int:
    """Show how the log directories of a node are formatted; returns the exit code."""
    from storage_tool.info import look

    found = look(options.config)
    output.result(found.as_json(), found.text())
    return 1 if found.problems else 0


def rate(text: str) -> float:
    """Return MB of 10^6 bytes a second, as an argument's type.

    Raises:
        ArgumentTypeError: it is no such number.
    """
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise ArgumentTypeError(f"expected MB/s above 0, got {text!r}")
    return found


def explain(options: Namespace, output: Output) -> int:
    """Show what the fields of a record mean; returns the exit code."""
    from storage_tool.explain import run

    run(options.type, output)
    return 0


def size(text: str) -> int:
    """Return a number of bytes, as an argument's type.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not (text.isascii() and text.isdecimal() and int(text) <= SIZE_MAX):
        raise ArgumentTypeError(f"expected a number of bytes from 0 to {SIZE_MAX}, got {text!r}")
    return int(text)
