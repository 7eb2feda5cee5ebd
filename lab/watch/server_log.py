"""Log lines of servers about failed log directories: lines of our own, and of Apache Kafka's.

The sentences of Kafka's LogDirFailureChannel, ReplicaManager and LogManager are those of its
releases 3.7 to 4.3. Several are about one failure: the first one that names the directory counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

LOG = "log of the broker"
"""The name of this source, as people read it."""
TAIL_BYTES = 8 << 20
STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})")
OURS = (
    re.compile(r"log directory (?P<path>\S+) \(\S+\) went offline: (?P<cause>.*)"),
    re.compile(r"log directory (?P<path>\S+) went offline: (?P<cause>.*)"),
)
STOPPING = re.compile(r"Stopping serving (?:replicas|logs) in dir (?P<path>\S+)")
FAILED = (
    # As `LEVEL LOGGER - TEXT`, and as Kafka's own distribution writes it: `LEVEL TEXT (LOGGER)`.
    re.compile(r"LogDirFailureChannel - (?P<text>.*)"),
    re.compile(r"ERROR (?P<text>.*) \(\S*LogDirFailureChannel\)$"),
)
STARTING = re.compile(r"Transition from SHUTDOWN to STARTING")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A line's facts about a directory that failed.

    Attributes:
        path: The directory, as `log.dirs` has it.
        cause: Why, as the server says it; empty where it does not.
        wall_ms: When the line was written, by the wall clock; None where it does not tell.
    """

    path: str
    cause: str
    wall_ms: int | None


class FailureLines:
    """Reads the log of one server, line by line.

    Args:
        paths: Its directories.
    """

    def __init__(self, paths: Collection[str]) -> None:
        # A path may begin as another does.
        self._paths = sorted(paths, key=len, reverse=True)
        self._told: set[str] = set()
        """Directories of Kafka's brokers whose failure was told since the server started."""

    def read(self, line: str) -> Failure | None:
        """Return the failure that a line is the first to tell of; None for all other lines."""
        for pattern in OURS:
            if match := pattern.search(line):
                # Behind the sentence a line of ours has the same as fields.
                return _failure(line, match["path"], match["cause"].partition(" cause=")[0].strip())
        if STARTING.search(line):
            self._told.clear()
            return None
        if match := STOPPING.search(line):
            return self._first(line, match["path"].rstrip("."), "")
        for pattern in FAILED:
            if match := pattern.search(line):
                text = match["text"].strip()
                path = next((one for one in self._paths if _names(text, one)), None)
                return None if path is None else self._first(line, path, text)
        return None

    def _first(self, line: str, path: str, cause: str) -> Failure | None:
        if path in self._told:
            return None
        self._told.add(path)
        return _failure(line, path, cause)


def last_failures(log_file: Path, paths: Collection[str]) -> Mapping[str, Failure]:
    """Return the last failure of each directory that the end of a server's log tells of."""
    try:
        with log_file.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    news = FailureLines(paths)
    return {found.path: found for line in lines if (found := news.read(line)) is not None}


def last_words(lines: Sequence[str]) -> str:
    """Return what a server wrote last, without the frames of a stack trace; empty if nothing."""
    told = (line for line in reversed(lines) if line.strip() and not line[0].isspace())
    return next(told, "")


def _names(text: str, path: str) -> bool:
    """Return whether a sentence names a directory, or what lies below it."""
    at = text.find(path)
    return at >= 0 and not re.match(r"[\w.-]", text[at + len(path) : at + len(path) + 1])


def _failure(line: str, path: str, cause: str) -> Failure:
    wall_ms = None
    if stamp := STAMP.match(line):
        at = datetime.strptime(stamp[1], "%Y-%m-%d %H:%M:%S,%f").astimezone()
        wall_ms = int(at.timestamp() * 1000)
    return Failure(path=path, cause=cause, wall_ms=wall_ms)
