"""Names of log directories: `broker-1/2` is the second one of broker 1, as `dirs list` counts.

The path may stand instead of the number, `broker-1:/mnt/d2`; `broker-1` means all of a broker.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import NamedTuple

from admin_tool.errors import AdminError
from admin_tool.kafka_calls.log_dirs import LogDir
from jbodlab.cli.parser import Parser

_NAME = re.compile(r"broker-(?P<broker>\d{1,9})(?:/(?P<number>\d{1,4})|:(?P<path>/.*))?", re.ASCII)


class DirName(NamedTuple):
    """A name of a directory; without number and path it means all directories of the broker."""

    broker: int
    number: int | None = None
    path: str | None = None

    @property
    def is_broker(self) -> bool:
        """Whether it means all directories of the broker."""
        return self.number is None and self.path is None


def dir_or_broker(text: str) -> DirName:
    """Return a name of a directory or a broker, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise ArgumentTypeError(f"expected broker-1/2 or broker-1:/PATH, got {text!r}")
    number = found["number"]
    return DirName(int(found["broker"]), None if number is None else int(number), found["path"])


def dir_name(text: str) -> DirName:
    """Return a name of one directory, as an argument's type.

    Raises:
        ArgumentTypeError: it is not one.
    """
    name = dir_or_broker(text)
    if name.is_broker:
        raise ArgumentTypeError(f"expected a directory such as {text}/1, got {text!r}")
    return name


def add_dir(parser: Parser) -> None:
    """Add the argument `DIR`, one directory."""
    parser.add_argument(
        "dir", metavar="DIR", type=dir_name, help="such as broker-1/2 or broker-1:/mnt/d2"
    )


def resolve(name: DirName, log_dirs: Sequence[LogDir]) -> LogDir:
    """Return the directory of a broker that a name means.

    Raises:
        AdminError: the broker has no such directory.
    """
    for number, log_dir in enumerate(log_dirs, 1):
        if number == name.number or log_dir.path == name.path:
            return log_dir
    known = ", ".join(f"{number}: {one.path}" for number, one in enumerate(log_dirs, 1))
    raise AdminError(
        f"broker {name.broker} has no log directory {name.path or name.number}, it has {known}"
    )
