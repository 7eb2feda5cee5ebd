"""The lines of a server's log: one for each event, whichever names are in it."""

from __future__ import annotations

import logging
import sys

from jbodlab.runtime import log_lines

FORGED = "t\n2026-01-01 00:00:00,000 ERROR broker.disk d1 went offline\r\x1b[31m\u2028"


def written(message: str, *args: object, **values: object) -> str:
    record = logging.makeLogRecord({"name": "m", "levelname": "INFO", "msg": message, "args": args})
    record.__dict__.update(values)
    log_lines.with_values(record)
    return log_lines.OneLine(log_lines.FORMAT).format(record)


def test_no_name_from_outside_begins_a_line() -> None:
    escaped = "t\\n2026-01-01 00:00:00,000 ERROR broker.disk d1 went offline\\r\\x1b[31m\\u2028"

    line = written("denied %s", FORGED, topic=FORGED)

    assert line.endswith(f" INFO m denied {escaped} topic={escaped}")
    assert line.isprintable()


def test_lines_of_a_traceback_begin_with_blanks() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        first, *others = written("failed", exc_info=sys.exc_info()).split("\n")

    assert first.endswith("INFO m failed")
    assert others[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def test_what_people_read_stays() -> None:
    assert written("grüße %s", "日本").endswith(" INFO m grüße 日本")
