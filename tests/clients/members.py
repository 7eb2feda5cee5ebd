"""Members of a consumer group, and producers, that are processes: what they print, and when."""

from __future__ import annotations

import json
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


class MemberProcess:
    """A program that consumes in a group, or produces; see `programs` for what it prints.

    Attributes:
        assigned: The partitions that it has, as it told last.
        seen: Every record, in the order of printing.
        committed: The largest offset of which a commit was acknowledged, by partition.
        acknowledged: Every value that it wrote, and when its acknowledgement was read here, in
            seconds of `monotonic`.
        errors: What it had to try again; of a producer, what it has given up.
    """

    def __init__(self, command: Sequence[str], *arguments: str) -> None:
        self.assigned: set[int] = set()
        self.seen: list[Seen] = []
        self.committed: dict[int, int] = {}
        self.acknowledged: dict[str, float] = {}
        self.errors: list[str] = []
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
            f"member {self._process.pid}, exit code {self._process.poll()}, "
            f"has {sorted(self.assigned)}, {len(self.seen)} records, committed {self.committed}, "
            f"{len(self.acknowledged)} acknowledged, errors {self.errors[-3:]}, "
            f"{self._said.read()[-LAST_CHARS:]}"
        )

    def leave(self) -> None:
        """Let it leave its group; that has to end it well."""
        self._hang_up("leave\n")
        wait_for(
            "a member that leaves",
            lambda: self._process.poll() is not None,
            LEAVE_DEADLINE_S,
            last_seen=lambda: self,
        )
        self._reader.join(LEAVE_DEADLINE_S)
        assert self._process.returncode == 0, repr(self)

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
