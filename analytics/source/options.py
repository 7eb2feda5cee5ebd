"""Options of the data source, and what filters leave of a log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from analytics.errors import ReplayInputError
from analytics.read.arrow_rows import ALL, MAX_LONG, MIN_LONG, Selection
from analytics.read.log_copies import LogCopy, labelled
from analytics.read.named_logs import look, unpack_archive
from analytics.source.requirements import NAME
from analytics.source.tasks import NamedLog
from analytics.store.log_files import local_path, open_files
from analytics.store.patterns import expand, is_pattern

MAX_BYTES_PER_TRIGGER = 256 << 20

RECORD_ROWS, LOG_ROWS = "records", "logs"

OPTIONS = (
    *("startOffset", "endOffset", "startTime", "endTime"),
    *("payload", "splitBytes", "pushFilters", "maxBytesPerTrigger", "rows", "scratch", "copies"),
)
_PATHS = ("path", "paths")
"""Options that Spark makes of the arguments of `load`."""

_BRACES = re.compile(r"\{[^{}]*,[^{}]*\}")
"""Patterns that Hadoop, and a shell, make several paths of."""

_BOUNDED = {
    "offset": "offset",
    "timestamp": "time_ms",
    "replay_offset": "replay_offset",
    "replay_time": "replay_time_ms",
}
"""Columns that filters bound -> attribute of `Selection`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of the data source."""

    logs: tuple[NamedLog, ...]
    """The logs, by the labels of their clusters."""
    rows: str
    """Kind of a row: a record, or a log."""
    split_bytes: int | None
    """Bytes of one task; None leaves it to the size of the log."""
    with_payload: bool
    push_filters: bool
    selection: Selection
    max_bytes_per_trigger: int

    @property
    def sources(self) -> Mapping[str, str | None]:
        """The directories, and the labels of their clusters."""
        return {copy.folder: label for label, copies in self.logs for copy in copies}


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """Read the options of a data source; names do not depend on case.

    Raises:
        ReplayInputError: there is no option of a name, a value is none, or a path holds no
            metadata log.
    """
    given = {name.lower(): value for name, value in options.items()}
    for name in options:
        _check_name(name)
    rows = given.get("rows", RECORD_ROWS)
    if rows not in (RECORD_ROWS, LOG_ROWS):
        raise ReplayInputError(f"option rows: {rows!r} is neither {RECORD_ROWS} nor {LOG_ROWS}")
    selection = replace(
        ALL,
        replay_offset=(
            _number(given, "startOffset", MIN_LONG),
            _number(given, "endOffset", MAX_LONG),
        ),
        replay_time_ms=(_time(given, "startTime", MIN_LONG), _time(given, "endTime", MAX_LONG)),
    )
    split_bytes = _number(given, "splitBytes", 0)
    return SourceOptions(
        logs=_known_logs(given["copies"])
        if "copies" in given
        else _logs_at(_paths(given), given.get("scratch")),
        rows=rows,
        split_bytes=split_bytes if split_bytes > 0 else None,
        with_payload=_flag(given, "payload", default=True),
        push_filters=_flag(given, "pushFilters", default=False),
        selection=ALL if selection == ALL else selection,
        max_bytes_per_trigger=_number(given, "maxBytesPerTrigger", MAX_BYTES_PER_TRIGGER),
    )


def is_of_logs(options: Mapping[str, str]) -> bool:
    """Return whether a row is a log."""
    return any(name.lower() == "rows" and text == LOG_ROWS for name, text in options.items())


def _check_name(name: str) -> None:
    """Refuse a name that means nothing: what was wanted by it would silently not happen."""
    names = {known.lower(): known for known in (*OPTIONS, *_PATHS)}
    if name.lower() in names:
        return
    near = get_close_matches(name.lower(), names, n=1)
    meant = f", did you mean {names[near[0]]}" if near else f"; it has {', '.join(OPTIONS)}"
    raise ReplayInputError(f"the data source {NAME} has no option {name}{meant}")


def narrowed(selection: Selection, filters: Iterable[Filter]) -> Selection:
    """Return what filters leave; those that say nothing about bounds and types change nothing.

    A filter is never applied in full here: what it leaves may hold rows that it does not want.
    """
    for one in filters:
        inner = one.child if isinstance(one, Not) else one
        if inner == EqualTo(("snapshot",), True):
            selection = replace(selection, snapshot=inner is one)
            continue
        column = ".".join(getattr(one, "attribute", ()))
        value: Any = getattr(one, "value", None)
        if column == "type" and isinstance(one, EqualTo | In):
            names = frozenset(value if isinstance(one, In) else [value])
            if all(isinstance(name, str) for name in names):
                types = names if selection.types is None else selection.types & names
                selection = replace(selection, types=types)
        elif column in _BOUNDED:
            name = _BOUNDED[column]
            bounds = _bounds(one, value, is_time=name.endswith("_ms"))
            if bounds is not None:
                low, high = getattr(selection, name)
                narrower: dict[str, Any] = {name: (max(low, bounds[0]), min(high, bounds[1]))}
                selection = replace(selection, **narrower)
    return selection


def _bounds(one: Filter, value: Any, *, is_time: bool) -> tuple[int, int] | None:
    """Return the bounds that a filter leaves, the upper one exclusive."""
    if is_time:
        if not isinstance(value, datetime):
            return None
        value = value if value.tzinfo is not None else value.astimezone()
        # Down to the millisecond that holds it, so that no row is lost.
        value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    match one:
        case EqualTo():
            return value, value + 1
        case GreaterThan() | GreaterThanOrEqual():
            return value + (isinstance(one, GreaterThan) and not is_time), MAX_LONG
        case LessThan() | LessThanOrEqual():
            return MIN_LONG, value + (is_time or isinstance(one, LessThanOrEqual))
    return None


def _paths(given: Mapping[str, str]) -> Sequence[str]:
    """Return the paths of `load`: one, a JSON list, or several with commas between them.

    A path that exists by the whole name or pattern is one path, commas and all.
    """
    text = given.get("paths") or given.get("path") or ""
    if text.lstrip().startswith("[") and not _exists(text):
        try:
            paths = json.loads(text)
        except json.JSONDecodeError as error:
            raise ReplayInputError(
                f"path {text!r} matches nothing, and is not a JSON list"
            ) from error
        if not all(isinstance(path, str) for path in paths):
            raise ReplayInputError(f"path: expected a list of texts, got {text!r}")
    elif _BRACES.search(text) or ("," in text and _exists(text)):
        paths = [text]
    else:
        paths = [path for path in map(str.strip, text.split(",")) if path]
    if not paths:
        # A table of Spark's catalog has no options, whatever was given when it was created.
        raise ReplayInputError(
            f"the data source {NAME} needs a path: spark.read.format({NAME!r}).load(PATH), or "
            f"CREATE TEMPORARY VIEW V USING `{NAME}` OPTIONS (path 'PATH'); of CREATE TABLE ... "
            f"USING `{NAME}` Spark gives it no options: CREATE TABLE T AS SELECT * FROM V"
        )
    return list(paths)


def _known_logs(text: str) -> tuple[NamedLog, ...]:
    """Return logs that somebody has looked for before: labels, and the fields of `LogCopy`."""
    return tuple(
        (label, tuple(LogCopy(**copy) for copy in copies)) for label, copies in json.loads(text)
    )


def _logs_at(paths: Sequence[str], scratch: str | None) -> tuple[NamedLog, ...]:
    """Return the logs that paths name, each with the label of its cluster.

    Raises:
        ReplayInputError: there is none, or one cannot be read.
    """
    for path in paths:
        if _BRACES.search(path) and not _exists(path):
            raise ReplayInputError(
                f"path {path!r}: of patterns there are *, ? and [...]; in place of {{a,b}} give a "
                "list of paths, load(['a', 'b'])"
            )
    inputs = look(paths)
    found = list(inputs.found)
    if inputs.archives and scratch is None:
        raise ReplayInputError(
            f"archive {inputs.archives[0].place.source} needs the option scratch: a folder that "
            "all tasks can read, to which it is unpacked"
        )
    for number, archive in enumerate(inputs.archives):
        found += unpack_archive(archive, str(scratch), f"inputs/{number}")
    return tuple((label, tuple(copies)) for label, copies in labelled(found).items())


def _exists(source: str) -> bool:
    """Return whether there is anything by a name or pattern."""
    try:
        if is_pattern(source):
            return bool(expand(source))
        local = local_path(source)
        if local is not None:
            return local.exists()
        open_files(source).entries()
    except (OSError, ValueError):
        return False
    return True


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ReplayInputError(f"option {name}: {text!r} is not a whole number") from None


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise ReplayInputError(f"option {name}: {text!r} is neither true nor false")
    return text == "true"


def _time(given: Mapping[str, str], name: str, default: int) -> int:
    """Return ms since 1970 of an option: such a number, or a time as ISO 8601 has it."""
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ReplayInputError(
            f"option {name}: {text!r} is neither milliseconds nor an ISO 8601 time"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return -((datetime(1970, 1, 1, tzinfo=UTC) - moment) // _MILLISECOND)


_MILLISECOND = datetime(1970, 1, 1, 0, 0, 0, 1000) - datetime(1970, 1, 1)
