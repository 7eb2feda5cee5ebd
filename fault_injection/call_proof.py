"""Proves that a rule bites: a child that follows it runs into it, with a file of its own.

The child does what the rule does not forbid until it comes to a call that the rule is about, then
that call, then the same one in a neighbour directory, and says how long each took and how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from fault_injection.check import User
from fault_injection.preload.rules import CallClass, Rule

PREFIX = ".jbod-proof-"
"""What the names of the files begin with that proofs make; brokers ignore them."""

HANGS_AFTER_S = 0.2
DEADLINE_S = 30.0

ORDER = (
    CallClass.CREATE,
    CallClass.WRITE,
    CallClass.SYNC,
    CallClass.READ,
    CallClass.TRUNCATE,
    CallClass.OPEN,
    CallClass.STAT,
    CallClass.RENAME,
    CallClass.REMOVE,
    CallClass.LIST,
)
"""Which class is tried, the first that the rule is about; none needs one that comes later."""

_SCRIPT = """
import json, os, sys, time
wanted, name, directory, neighbour = sys.argv[1:]

def work(folder):
    path = folder + "/" + name
    def timed(step, act):
        if step != wanted:
            return act()
        tell(folder=folder, step="begun")
        begun = time.monotonic_ns()
        code, value = 0, None
        try:
            value = act()
        except OSError as error:
            code = error.errno or 5
        tell(folder=folder, step="ended", errno=code, took_ns=time.monotonic_ns() - begun)
        if code:
            raise Done
        return value
    fd = timed("CREATE", lambda: os.open(path, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600))
    timed("WRITE", lambda: os.write(fd, b"x"))
    timed("SYNC", lambda: os.fsync(fd))
    timed("READ", lambda: os.pread(fd, 1, 0))
    timed("TRUNCATE", lambda: os.ftruncate(fd, 0))
    timed("OPEN", lambda: os.close(os.open(path, os.O_RDONLY)))
    timed("STAT", lambda: os.stat(path))
    timed("RENAME", lambda: os.rename(path, path + "-renamed"))
    if wanted == "LIST":
        timed("LIST", lambda: os.listdir(folder))
    timed("REMOVE", lambda: os.unlink(path + "-renamed"))

class Done(Exception):
    pass

def tell(**values):
    sys.stdout.write(json.dumps(values) + "\\n")
    sys.stdout.flush()

for folder in (neighbour, directory):
    if folder:
        try:
            work(folder)
        except Done:
            pass
tell(folder="", step="through")
"""


def doubt(
    rule: Rule,
    user: User,
    variables: Mapping[str, str],
    launcher: Sequence[str],
    neighbour: Path | None,
) -> str:
    """Return why a rule does not bite a child that follows it; empty if it does.

    Args:
        rule: The rule.
        user: Who the child becomes.
        variables: What makes the child follow the rule.
        launcher: What starts the child, before its own command.
        neighbour: A directory that the rule is not about; None where there is none.
    """
    wanted = next(one for one in ORDER if one & rule.calls)
    name = f"{PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    python = os.path.realpath(sys.executable)
    command = [*launcher, python, "-I", "-S", "-c", _SCRIPT]
    where = str(rule.directory)
    child = subprocess.Popen(
        [*command, str(wanted.name), name, where, str(neighbour or "")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **variables},
        user=user.uid if os.geteuid() == 0 else None,
        group=user.gid if os.geteuid() == 0 else None,
        extra_groups=[] if os.geteuid() == 0 else None,
    )
    try:
        assert child.stdout is not None
        return _judge(rule, str(wanted.name).lower(), where, _Lines(child.stdout.fileno()))
    finally:
        child.kill()
        child.communicate()
        for folder in (rule.directory, neighbour):
            for suffix in ("", "-renamed"):
                if folder is not None:
                    with contextlib.suppress(OSError):
                        (folder / f"{name}{suffix}").unlink()


class _Lines:
    """What the child tells, with a deadline."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._read = b""

    def next(self, deadline_s: float) -> dict[str, object] | None:
        """Return what it tells next, None where it tells nothing in time."""
        end = time.monotonic() + deadline_s
        while b"\n" not in self._read:
            left_s = end - time.monotonic()
            if left_s <= 0 or not select.select([self._fd], [], [], left_s)[0]:
                return None
            chunk = os.read(self._fd, 65536)
            if not chunk:
                return {"step": "silent"}
            self._read += chunk
        line, _, self._read = self._read.partition(b"\n")
        return dict(json.loads(line))


def _judge(rule: Rule, call: str, where: str, lines: _Lines) -> str:
    while (told := lines.next(DEADLINE_S)) is not None:
        match told["step"], told.get("folder") == where:
            case "ended", False if told["errno"]:
                return f"a {call} call in {told['folder']} next to it fails as well"
            case "begun", True if rule.hang_s:
                if lines.next(HANGS_AFTER_S) is None:
                    return ""
                return f"a {call} call in {where} comes back"
            case "ended", True:
                return _judge_outcome(rule, call, where, told)
            case "through" | "silent", _:
                return f"a {call} call in {where} could not be tried"
    return f"a child that tries a {call} call in {where} does not answer"


def _judge_outcome(rule: Rule, call: str, where: str, told: Mapping[str, object]) -> str:
    code, took_ms = told["errno"], int(str(told["took_ns"])) / 1e6
    if rule.errno:
        return "" if code == rule.errno else f"a {call} call in {where} goes well"
    if code:
        return f"a {call} call in {where} fails with {os.strerror(int(str(code)))}"
    # A clock may tick a little early against the sleep that was asked for.
    if took_ms >= rule.delay_ms * 0.95:
        return ""
    return f"a {call} call in {where} took {took_ms:.0f} ms only"
