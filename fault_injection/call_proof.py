"""Proves that a rule takes effect: a child that follows it makes the calls, with its own file.

The child does what the rule does not forbid until it comes to a call that the rule is about, then
that call, then the same one in a neighbour directory, and says how long each took and how it ended.
It removes its files itself, once the rule is lifted: a call of the broker that hangs may hold the
directory in the kernel, and whoever then asks for a file there comes back with it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fault_injection.check import User, as_user
from fault_injection.preload.rules import CallClass, Rule

PREFIX = ".jbod-proof-"
"""Prefix of the files that proofs make; brokers ignore them."""

HANGS_AFTER_S = 0.2
DEADLINE_S = 30.0
ENDS_AFTER_S = 2.0

ORDER = (
    CallClass.CREATE,
    CallClass.WRITE,
    CallClass.SYNC,
    CallClass.READ,
    CallClass.TRUNCATE,
    CallClass.STAT,
    CallClass.OPEN,
    CallClass.RENAME,
    CallClass.REMOVE,
    CallClass.LIST,
)
"""Which class is tried, the first that the rule is about; none needs one that comes later."""

_left: list[subprocess.Popen[bytes]] = []
"""Children that were held up when their proof was over."""

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
    timed("STAT", lambda: os.stat(path))
    timed("OPEN", lambda: os.close(os.open(path, os.O_RDONLY)))
    timed("RENAME", lambda: os.rename(path, path + "-renamed"))
    if wanted == "LIST":
        os.mkdir(path + "-folder")
        timed("LIST", lambda: os.listdir(path + "-folder"))
        os.rmdir(path + "-folder")
    timed("REMOVE", lambda: os.unlink(path + "-renamed"))

class Done(Exception):
    pass

def tell(**values):
    # Who asked may have gone, and there are still files to be removed.
    try:
        os.write(1, json.dumps(values).encode() + b"\\n")
    except OSError:
        pass

folders = [folder for folder in (neighbour, directory) if folder]
for folder in folders:
    try:
        work(folder)
    except (Done, OSError):
        pass
tell(folder="", step="through")
sys.stdin.read()
for folder in folders:
    for remove, suffix in ((os.rmdir, "-folder"), (os.unlink, "-renamed"), (os.unlink, "")):
        try:
            remove(folder + "/" + name + suffix)
        except OSError:
            pass
"""


def verify(
    rule: Rule,
    user: User,
    variables: Mapping[str, str],
    neighbour: Path | None,
    lift: Callable[[], None],
) -> str:
    """Return why a rule has no effect on a child that follows it; empty if it has.

    Args:
        rule: The rule.
        user: User that the child becomes.
        variables: Variables that make the child follow the rule.
        neighbour: A directory that the rule is not about; None where there is none.
        lift: Takes the rule back from the child.
    """
    wanted = next(one for one in ORDER if one & rule.calls)
    name = f"{PREFIX}{os.getpid()}-{time.monotonic_ns()}"
    python = os.path.realpath(sys.executable)
    command = [python, "-I", "-S", "-c", _SCRIPT]
    where = str(rule.directory)
    child = subprocess.Popen(
        [*command, str(wanted.name), name, where, str(neighbour or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **as_user(user.uid, user.gid, variables),
    )
    try:
        assert child.stdout is not None
        return _judge(rule, str(wanted.name).lower(), where, _Lines(child.stdout.fileno()))
    finally:
        lift()
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Let a child remove its files; one that is held up does so when the fault is healed."""
    _left[:] = [one for one in _left if one.poll() is None]
    try:
        child.communicate(timeout=ENDS_AFTER_S)
    except subprocess.TimeoutExpired:
        _left.append(child)
        for pipe in (child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()


class _Lines:
    """The answer of the child, with a deadline."""

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
                return f"a {call} call in {where} returns"
            case "ended", True:
                return _judge_outcome(rule, call, where, told)
            case "through" | "silent", _:
                return f"a {call} call in {where} could not be tried"
    return f"the process that tries a {call} call in {where} does not answer"


def _judge_outcome(rule: Rule, call: str, where: str, told: Mapping[str, object]) -> str:
    code, took_ms = told["errno"], int(str(told["took_ns"])) / 1e6
    if rule.errno:
        return "" if code == rule.errno else f"a {call} call in {where} succeeds"
    if code:
        return f"a {call} call in {where} fails with {os.strerror(int(str(code)))}"
    # A clock may tick a little early against the sleep that was asked for.
    if took_ms >= rule.delay_ms * 0.95:
        return ""
    return f"a {call} call in {where} took only {took_ms:.0f} ms"
