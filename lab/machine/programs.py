"""Where the servers' and tools' programs are, and whether the servers' user can run them."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from jbodlab.cli.choice import DEFAULT_CLUSTER
from jbodlab.cli.program_names import PROGRAMS, ROOT, name_of
from lab.errors import LabError
from lab.machine import processes
from lab.machine.processes import CLUSTER_VARIABLE, ServerUser

DEFAULT_UID = 1500
"""User that root's servers run as; it needs no entry in the list of users."""

_NEEDED_TO_BECOME = {"CAP_CHOWN": 0, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}
"""Capabilities, with their bits, that a process of root needs to have servers run as others."""

PACKAGES = (
    "jbodlab",
    "broker",
    "controller",
    "storage_tool",
    "admin_tool",
    "analytics",
    "pyspark_kraft_metadata",
    "fault_injection",
)
"""Packages of servers and tools; in a wheel the first has all but one of the others."""


def command(module: str) -> list[str]:
    """Return the command that runs one of our programs, by a path without links.

    The environment may be reached through a link in a folder that the servers' user cannot enter.
    """
    return [python(), "-m", name_of(module)]


def tool(*words: str) -> list[str]:
    """Return the command that runs `jbodlab` with words, as `command` does a program."""
    return [python(), "-m", "jbodlab", *words]


def python() -> str:
    """Return the interpreter of this environment, by a path without links to the environment."""
    name = Path(sys.prefix).resolve() / "bin" / Path(sys.executable).name
    return str(name) if name.exists() else sys.executable


def sources(user: ServerUser, root: Path) -> Path:
    """Return the folder of the sources that servers run: those that run here.

    Where the servers' user cannot read them, as in a clone in somebody's home, a copy is made in
    the folder of the cluster.
    """
    if _may_read(PROGRAMS / "broker" / "__main__.py", user):
        return ROOT
    copy = root / "sources"
    if not copy.exists():
        for package in PACKAGES:
            if (ROOT / package).is_dir():
                shutil.copytree(ROOT / package, copy / package)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def environment(
    root: Path, user: ServerUser, state_dir: Path | None = None, **more: str
) -> dict[str, str]:
    """Return the environment of everything that is started for a cluster.

    Args:
        root: The folder of the cluster.
        user: User that runs it.
        state_dir: Where clusters and faults are written down, if they are.
        more: Further variables.
    """
    found = {**os.environ, CLUSTER_VARIABLE: str(root), "PYTHONUNBUFFERED": "1", **more}
    tree = sources(user, root)
    if tree != Path(sysconfig.get_path("purelib")).resolve():
        # Before anything that is installed. Another entry there may be a relative path, and
        # servers run in another folder than this process.
        others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        entries = [tree, *(Path(entry).resolve() for entry in others if entry)]
        found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(map(str, entries)))
    if state_dir is not None:
        found["JBODLAB_STATE_DIR"] = str(state_dir)
    return found


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
        user = ServerUser(uid=wanted, gid=pwd.getpwuid(wanted).pw_gid)
    except KeyError:
        user = ServerUser(uid=wanted, gid=wanted)
    status = Path("/proc/self/status").read_text("utf-8", "replace")
    if reason := why_not_become(user, status, Path("/proc/self/uid_map").read_text()):
        raise LabError(
            f"servers run as uid {wanted}, which this root cannot become: {reason}; start "
            "jbodlab as an ordinary user, in a container with --user 1500 or --userns=keep-id"
        )
    return user


def why_not_become(user: ServerUser, status: str, uid_map: str) -> str:
    """Return why this root cannot become another user and give it files; empty if it can.

    Args:
        user: That user.
        status: The text of `/proc/self/status`, with the capabilities.
        uid_map: The text of `/proc/self/uid_map`: first id, id outside and count, a line each.
    """
    ranges = [list(map(int, line.split())) for line in uid_map.splitlines()]
    if ranges and not any(first <= user.uid < first + count for first, _, count in ranges):
        return "this user namespace has no such id"
    held = next((int(line[7:], 16) for line in status.splitlines() if line[:7] == "CapEff:"), -1)
    missing = [name for name, bit in _NEEDED_TO_BECOME.items() if not held >> bit & 1]
    return f"without {', '.join(missing)}" if missing else ""


def check(user: ServerUser, root: Path, variables: Mapping[str, str]) -> None:
    """Try, as the servers' user, that the servers can be run and that their folder is reached.

    Raises:
        LabError: they cannot, with the reason.
    """
    servers = ", ".join(map(name_of, ("broker", "controller")))
    look = f"import os, sys, {servers}; os.listdir(sys.argv[1])"
    attempt = [python(), "-c", look, str(root)]
    try:
        done = processes.run(attempt, user=user, environment=variables)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(
            f"uid {user.uid}, as whom the servers run, cannot run {attempt[0]} ({error}); make the "
            "virtual environment with a Python that every user may run, such as /usr/bin/python3, "
            "in a folder that every user may enter"
        ) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise LabError(
            f"uid {user.uid} cannot run the servers of {sys.prefix} in {root}: "
            f"{lines[-1] if lines else f'exit code {done.returncode}'}"
        )


def _may_read(path: Path, user: ServerUser) -> bool:
    """Return whether permissions let a user read a file; other rules show when it is run."""
    if not user.is_other:
        return True
    needed = [(path, 0o4), *((parent, 0o1) for parent in path.parents)]
    return all(_allows(each.stat(), user, bit) for each, bit in needed)


def _allows(found: os.stat_result, user: ServerUser, bit: int) -> bool:
    if found.st_uid == user.uid:
        shift = 6
    elif found.st_gid == user.gid:
        shift = 3
    else:
        shift = 0
    return bool(found.st_mode >> shift & bit)


def call(words: str, cluster: str) -> str:
    """Return a `jbodlab` command about a cluster as it can be pasted into the shell.

    Args:
        words: The command, such as `status`.
        cluster: Name of the cluster.
    """
    named = "" if cluster == DEFAULT_CLUSTER else f" --cluster {cluster}"
    return f"{jbodlab()} {words}{named}"


def jbodlab(called: str = sys.argv[0], variables: Mapping[str, str] = os.environ) -> str:
    """Return `jbodlab` as it can be pasted into the shell that has called it.

    Args:
        called: How this process was called.
        variables: Its environment.
    """
    name = "jbodlab"
    if Path(called).name != name:
        return name
    found = shutil.which(name, path=variables.get("PATH"))
    # A program that uv runs without installing it is on the path of that process alone.
    if found is not None and Path(found).resolve() == Path(called).resolve():
        return shlex.quote(called) if "UV" in variables else name
    return shlex.quote(called)
