"""How a server writes its log: one line for each event, on standard error.

A line has the time, the level, the module, a short fixed message, and behind it the values that the
event carries in `extra`, as `name=value`.
"""

from __future__ import annotations

import logging
import os
from typing import Any

LEVEL = "JBODLAB_LOG_LEVEL"
"""Variable of the environment with the least level that is written; INFO if it is not set."""

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s%(values)s"

_PLAIN = {**logging.makeLogRecord({}).__dict__, "message": "", "asctime": "", "values": ""}
"""Attributes that every log record has; the others are from `extra`."""


def set_up() -> None:
    """Send the log of this process to standard error."""
    level = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "").upper(), logging.INFO)
    logging.basicConfig(level=level)
    for handler in logging.getLogger().handlers:
        handler.addFilter(with_values)
        handler.setFormatter(OneLine(FORMAT))


class OneLine(logging.Formatter):
    """Writes an event as one line, and what was raised as lines that begin with blanks.

    Names come from outside: none of them may begin a line that looks like one of this process.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line, in which signs that nobody sees are escaped."""
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the lines of a traceback."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - logging's name
        """Return the lines of a stack."""
        return _indented(super().formatStack(stack_info))


def one_line(text: str) -> str:
    """Return a text with signs that nobody sees, such as line ends, as their escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _indented(text: str) -> str:
    return "\n".join(f"  {one_line(line)}" for line in text.splitlines())


def with_values(record: logging.LogRecord) -> bool:
    """Append the values of `extra` to the message of a log line."""
    values = {name: value for name, value in vars(record).items() if name not in _PLAIN}
    record.values = "".join(f" {name}={value}" for name, value in sorted(values.items()))
    return True
