"""Where the servers' and tools' programs are, and whether the servers' user can run them."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.errors import LabError
from lab.processes import CLUSTER_VARIABLE, ServerUser, run

DEFAULT_UID = 1500
"""User that root's servers run as; it needs no entry in the list of users."""

_MODULES = {
    "jbod-storage": "storage_tool",
    "jbod-controller": "controller",
    "jbod-broker": "broker",
    "jbod-fault": "fault_injection",
    "jbod-replay": "analytics.job",
}


def command(script: str) -> list[str]:
    """Return the command of one of our scripts, by a path without links.

    The environment may be reached through a link in a folder that the servers' user cannot enter.
    """
    installed = _bin() / script
    return [str(installed)] if installed.exists() else [python(), "-m", _MODULES[script]]


def python() -> str:
    """Return the interpreter of this environment, by a path without links to the environment."""
    name = _bin() / Path(sys.executable).name
    return str(name) if name.exists() else sys.executable


def environment(state_dir: Path, root: Path) -> dict[str, str]:
    """Return the environment of everything that is started for a cluster."""
    inherited = dict(os.environ)
    if "PYTHONPATH" in inherited:
        # Servers run in another folder than this process.
        entries = inherited["PYTHONPATH"].split(os.pathsep)
        inherited["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in entries)
    return {
        **inherited,
        "JBODLAB_STATE_DIR": str(state_dir),
        CLUSTER_VARIABLE: str(root),
        "PYTHONUNBUFFERED": "1",
    }


def server_user(uid: int | None) -> ServerUser:
    """Return who the servers run as: an unprivileged user where this is root, else this user.

    Raises:
        LabError: that user is root, or cannot be become.
    """
    own = os.geteuid()
    if own != 0:
        if uid not in (None, own):
            raise LabError(f"only root can start servers as uid {uid}; this is uid {own}")
        return ServerUser(uid=own, gid=os.getegid())
    wanted = DEFAULT_UID if uid is None else uid
    if wanted == 0:
        raise LabError("servers never run as root: no permission would stop them")
    try:
        return ServerUser(uid=wanted, gid=pwd.getpwuid(wanted).pw_gid)
    except KeyError:
        return ServerUser(uid=wanted, gid=wanted)


def check(user: ServerUser, root: Path, variables: Mapping[str, str]) -> None:
    """Try, as the servers' user, that the servers can be run and that their folder is reached.

    Raises:
        LabError: they cannot, with the reason.
    """
    look = "import os, sys, broker, controller; os.listdir(sys.argv[1])"
    for attempt in ([python(), "-c", look, str(root)], [*command("jbod-storage"), "random-uuid"]):
        try:
            done = run(attempt, user=user, environment=variables)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(
                f"uid {user.uid} cannot run {attempt[0]} ({error}); create the environment in a "
                "folder that this user may enter, as `make env` does"
            ) from error
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise LabError(
                f"uid {user.uid} cannot run the servers of {sys.prefix} in {root}: "
                f"{lines[-1] if lines else f'exit code {done.returncode}'}"
            )


def _bin() -> Path:
    return Path(sys.prefix).resolve() / "bin"
