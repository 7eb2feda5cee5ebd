"""The victim as a test sees it: started with the preloaded library, as the brokers' user."""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_injection.preload import Control, Counters, Rule

SERVER_UID = 1500
USER = (SERVER_UID, SERVER_UID) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
"""The broker to hit, and the process that follows rules."""
REPOSITORY = Path(__file__).resolve().parents[2]
DEADLINE_S = 30.0
VICTIM = Path(__file__).with_name("victim.py").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a call ended; times are monotonic."""

    errno: int
    begun_ns: int
    ended_ns: int


class Call:
    """A call that was ordered and may not have come back yet."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.answer: queue.Queue[dict[str, Any]] = queue.Queue()

    def answered(self) -> dict[str, Any]:
        try:
            return self.answer.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError(f"{self._name} did not return within {DEADLINE_S} s") from None

    def outcome(self) -> Outcome:
        answer = self.answered()
        return Outcome(
            errno=answer["errno"], begun_ns=answer["begun_ns"], ended_ns=answer["ended_ns"]
        )


class Patient:
    """One victim process in a folder."""

    def __init__(
        self, folder: Path, environment: dict[str, str], launcher: Sequence[str] = ()
    ) -> None:
        as_user = ["setpriv", f"--reuid={SERVER_UID}", f"--regid={SERVER_UID}", "--clear-groups"]
        command = [*launcher, sys.executable, "-c", VICTIM]
        self._process = subprocess.Popen(
            [*as_user, *command] if os.geteuid() == 0 else command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._folder = folder
        self._ids = itertools.count()
        self._calls: dict[int, Call] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def directory(self, name: str) -> Path:
        """Make a directory with files and open handles in it."""
        path = self._folder / name
        self.order("prepare", path).answered()
        return path

    def order(self, name: str, directory: Path, **more: object) -> Call:
        """Have a call made, without waiting for it."""
        number = next(self._ids)
        call = self._calls[number] = Call(f"{name} in {directory}")
        line = {"id": number, "call": name, "directory": str(directory), **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()
        return call

    def error(self, name: str, directory: Path) -> int:
        """Have a call made; returns its errno, 0 if it went well."""
        return self.order(name, directory).outcome().errno

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._calls.pop(answer["id"]).answer.put(answer)


class Rules:
    """The rules of a control file that a test has for itself, and what they met."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._counters: list[int] = []

    def set(self, *wanted: Rule) -> None:
        """Have these rules in force; one that is already goes on."""
        before = {armed.rule: armed.counter for armed in self.control.in_force}
        self._counters = [
            before[one] if one in before else self.control.impose(one) for one in wanted
        ]
        for counter in set(before.values()) - set(self._counters):
            self.control.lift(counter)

    def counters(self) -> list[Counters]:
        """Return what each of the rules that were set last met."""
        return [self.control.counters_of(one) for one in self._counters]

    def wait_broken(self, count: int) -> None:
        """Wait until the first rule has broken so many calls."""
        end = time.monotonic() + DEADLINE_S
        while self.counters()[0].broken < count:
            assert time.monotonic() < end, f"expected {count} calls, met {self.counters()}"
            time.sleep(0.002)
