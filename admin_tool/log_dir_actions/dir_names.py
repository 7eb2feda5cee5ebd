"""The directory of a broker that a command is about."""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.cli.dir_names import DirName
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir


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
