"""Lines of brokers about their directories, beside the facts of the metadata log.

The metadata log knows when the controller recorded a failure, not when the broker noticed it. The
lines of brokers' own logs do: those of Kafka (`[time] LEVEL message (logger)`) and of jbodlab
(`time LEVEL module message name=value`). Their times carry no zone: brokers write in that of their
machine, so that a reader says which one that is, if it is not that of this machine. The
table `broker_log_lines` says which failure a line tells of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from analytics.errors import ReplayInputError, reason_of

_LINE = re.compile(
    r"\[?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3})\]? (?P<level>[A-Z]+) (?P<text>.*)"
)
_BROKER = re.compile(r"\b(?:broker(?:[._ ]?[iI]d)?|node[._]?[iI]d)\s?=\s?(\d+)")
_LOG_DIR = re.compile(
    r"\blog_dir=(?P<own>\S+)|\b(?:in|on|from|to) (?:log )?dir(?:ectory)? (?P<kafka>/[^\s,:)]+)"
    r"|\blog dir(?:ectory)? (?P<other>/[^\s,:)]+)"
)
_DIRECTORY_ID = re.compile(
    r"\bdirectory_id=(?P<own>\S+)|\bwith uuid (?:Some\()?(?P<kafka>[A-Za-z0-9_-]{22})(?![\w-])"
)
_LEVELS = frozenset(("WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A warning or an error about a log directory."""

    file: str
    line: int
    """Number of the line, from 1."""
    time: datetime
    level: str
    broker: int | None
    """None if no line of the file says which broker wrote it."""
    log_dir: str
    directory: str | None
    """The id, where this line gives it, or another one of the same file and path."""
    message: str


def zone_named(name: str) -> tzinfo:
    """Return a time zone.

    Raises:
        ReplayInputError: there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ReplayInputError(
            f"--log-zone: expected a time zone such as UTC or Europe/Berlin, got {name!r}"
        ) from None


def read_broker_logs(paths: Iterable[Path], zone: tzinfo | None = None) -> list[LogLine]:
    """Return the lines about log directories, by file and number.

    Raises:
        ReplayInputError: a file cannot be read.
    """
    found: list[LogLine] = []
    for path in paths:
        try:
            with path.open(encoding="utf-8", errors="replace") as lines:
                found += lines_about_directories(str(path), lines, zone)
        except OSError as error:
            raise ReplayInputError(
                f"broker log {path} cannot be read: {reason_of(error)}"
            ) from error
    return found


def lines_about_directories(
    file: str, lines: Iterable[str], zone: tzinfo | None = None
) -> Iterator[LogLine]:
    """Yield the lines of one broker's log that tell of trouble with a directory."""
    broker: int | None = None
    found: list[LogLine] = []
    for number, text in enumerate(lines, 1):
        if broker is None and (named := _BROKER.search(text)):
            broker = int(named[1])
        parts = _LINE.match(text)
        if parts is None or parts["level"] not in _LEVELS:
            continue
        place = _LOG_DIR.search(parts["text"])
        if place is None:
            continue
        time = _time(parts["time"], int(parts["ms"]), zone)
        if time is None:
            continue
        directory = _DIRECTORY_ID.search(parts["text"])
        found.append(
            LogLine(
                file=file,
                line=number,
                time=time,
                level=parts["level"],
                broker=None,
                log_dir=place["own"] or (place["kafka"] or place["other"]).rstrip("."),
                directory=None if directory is None else directory["own"] or directory["kafka"],
                message=parts["text"].rstrip(),
            )
        )
    ids = _ids(found)
    for line in found:
        yield replace(line, broker=broker, directory=line.directory or ids.get(line.log_dir))


def _ids(lines: Iterable[LogLine]) -> dict[str, str]:
    """Return the ids of directories by their paths, where a broker's lines tell one and no other.

    Kafka names the id (3.9 and later) in one of the several lines about a failure.
    """
    known: dict[str, set[str]] = {}
    for line in lines:
        if line.directory is not None:
            known.setdefault(line.log_dir, set()).add(line.directory)
    return {path: min(ids) for path, ids in known.items() if len(ids) == 1}


def _time(text: str, milliseconds: int, zone: tzinfo | None) -> datetime | None:
    try:
        written = datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
        found = (written if zone is None else written.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return found + timedelta(milliseconds=milliseconds)
