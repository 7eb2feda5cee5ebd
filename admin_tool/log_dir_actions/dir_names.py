"""The directory of a broker that a command is about."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.cli.dir_names import DirName, dir_name
from jbodlab.cli.parser import Parser
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir


def add_dir(parser: Parser) -> None:
    """Add the argument `DIR`, one directory."""
    parser.add_argument(
        "dir", metavar="DIR", type=dir_name, help="such as broker-1/2 or broker-1:/mnt/d2"
    )


def resolve(name: DirName, log_dirs: Sequence[DescribedLogDir]) -> DescribedLogDir:
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
