"""How a server writes its log: one line for each event, on standard error.

A line has the time, the level, the module, a short fixed message, and behind it the values that the
event carries in `extra`, as `name=value`.
"""

from __future__ import annotations

import logging
import os

LEVEL = "JBODLAB_LOG_LEVEL"
"""Variable of the environment with the least level that is written; INFO if it is not set."""

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s%(values)s"

_PLAIN = {**logging.makeLogRecord({}).__dict__, "message": "", "asctime": "", "values": ""}
"""Attributes that every log record has; the others are from `extra`."""


def set_up() -> None:
    """Send the log of this process to standard error."""
    level = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "").upper(), logging.INFO)
    logging.basicConfig(level=level, format=FORMAT)
    for handler in logging.getLogger().handlers:
        handler.addFilter(with_values)


def with_values(record: logging.LogRecord) -> bool:
    """Append the values of `extra` to the message of a log line."""
    values = {name: value for name, value in vars(record).items() if name not in _PLAIN}
    record.values = "".join(f" {name}={value}" for name, value in sorted(values.items()))
    return True
