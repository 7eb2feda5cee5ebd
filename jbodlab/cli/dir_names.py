"""Names of log directories on a command line: `broker-1/2` is the second one of broker 1.

The directories count in the order in which their broker tells them, as `dirs list` shows. The path
may stand instead of the number, `broker-1:/mnt/d2`; `broker-1` means all of a broker.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from typing import NamedTuple

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
