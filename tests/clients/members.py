"""Programs of client libraries: what they print; members of a group, when they do."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lab.cluster import wait_for

LEAVE_DEADLINE_S = 30.0
LAST_CHARS = 2_000


class Seen(NamedTuple):
    """A record that a member printed, and when it was read here, in seconds of `monotonic`."""

    partition: int
    offset: int
    value: str
    at_s: float


class ProgramProcess:
    """A program that prints events, one JSON a line, and ends at the line `leave` or without input.

    Attributes:
        events: All that it has printed, but what a subclass has taken.
    """

    def __init__(self, command: Sequence[str], *arguments: str) -> None:
        self.events: list[dict[str, object]] = []
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with this object
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        self._said.seek(0)
        return (
            f"process {self._process.pid}, exit code {self._process.poll()}, "
            f"{self._account()}, {self._said.read()[-LAST_CHARS:]}"
        )

    def leave(self, deadline_s: float = LEAVE_DEADLINE_S) -> None:
        """Let it end by itself; that has to be well."""
        self._hang_up("leave\n")
        self.ends(deadline_s)
        assert self._process.returncode == 0, repr(self)

    def ends(self, deadline_s: float) -> int:
        """Wait until it has ended; returns its exit code."""
        wait_for(
            "the end of a program",
            lambda: self._process.poll() is not None,
            deadline_s,
            last_seen=lambda: self,
        )
        self._reader.join(LEAVE_DEADLINE_S)
        return int(self._process.returncode)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def terminate(self, deadline_s: float) -> None:
        """Ask it to end as a service manager does."""
        self._process.terminate()
        self.ends(deadline_s)

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join(LEAVE_DEADLINE_S)
        self._hang_up("")
        self._said.close()

    def assert_runs(self) -> None:
        """Assert that nothing has ended it."""
        assert self._process.poll() is None, repr(self)

    def _hang_up(self, last_word: str) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            try:
                self._process.stdin.write(last_word)
                self._process.stdin.close()
            except BrokenPipeError:
                pass

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout:
            for line in self._process.stdout:
                self._take(json.loads(line))

    def _take(self, event: dict[str, object]) -> None:
        self.events.append(event)

    def _account(self) -> str:
        return f"{len(self.events)} events, the last of them {self.events[-3:]}"


class MemberProcess(ProgramProcess):
    """A program that consumes in a group, or produces; see `programs` for what it prints.

    Attributes:
        assigned: The partitions that it has, as it told last.
        seen: Every record, in the order of printing.
        committed: The largest offset of which a commit was acknowledged, by partition.
        acknowledged: Every value that it wrote, and when its acknowledgement was read here, in
            seconds of `monotonic`.
        errors: Sends that it had to try again; of a producer, what it has given up.
    """

    def __init__(self, command: Sequence[str], *arguments: str) -> None:
        self.assigned: set[int] = set()
        self.seen: list[Seen] = []
        self.committed: dict[int, int] = {}
        self.acknowledged: dict[str, float] = {}
        self.errors: list[str] = []
        super().__init__(command, *arguments)

    def _account(self) -> str:
        return (
            f"has {sorted(self.assigned)}, {len(self.seen)} records, committed {self.committed}, "
            f"{len(self.acknowledged)} acknowledged, errors {self.errors[-3:]}"
        )

    def _take(self, event: dict[str, object]) -> None:
        match event:
            case {"event": "record", "partition": int(index), "offset": int(offset), **more}:
                self.seen.append(Seen(index, offset, str(more["value"]), time.monotonic()))
            case {"event": "assigned", "partitions": list(partitions)}:
                self.assigned = set(partitions)
            case {"event": "committed", "offsets": dict(offsets)}:
                for index, offset in offsets.items():
                    before = self.committed.get(int(index), 0)
                    self.committed[int(index)] = max(before, offset)
            case {"event": "acknowledged", "value": str(value)}:
                self.acknowledged[value] = time.monotonic()
            case {"event": "error", "message": str(message)}:
                self.errors.append(message)
            case _:
                raise AssertionError(f"no event of a member: {event}")


def seen_by(members: Iterable[MemberProcess]) -> list[Seen]:
    """Return the records that members have printed so far, in the order in which they did."""
    found = [record for member in members for record in list(member.seen)]
    return sorted(found, key=lambda record: record.at_s)


def longest_gap_s(records: Iterable[Seen], since_s: float) -> float:
    """Return the longest time between two records of one partition, whoever had it.

    Args:
        records: Of all members, in order.
        since_s: When the time before the first record begins.
    """
    longest = 0.0
    last: dict[int, float] = {}
    for record in records:
        if record.at_s >= since_s:
            longest = max(longest, record.at_s - last.get(record.partition, since_s))
            last[record.partition] = record.at_s
    return longest
