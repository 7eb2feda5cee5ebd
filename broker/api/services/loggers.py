"""The loggers of this process as a config resource (type BROKER_LOGGER): their names and levels.

A level is changed in this process only and lasts until its end.

Source: `kafka.server.ConfigAdminManager`, `LoggingController`, KIP-412.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from jbodlab.controller_api.requests import ConfigChange
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

ROOT = "root"
TRACE = 5
LEVELS: Mapping[str, int] = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": TRACE,
    "WARN": logging.WARNING,
}
"""Kafka's names of levels, and the levels of this process."""

SET, DELETE = 0, 1
OTHER_OPERATIONS = {2: "APPEND", 3: "SUBTRACT"}


def levels() -> dict[str, str]:
    """Return the level that is in force for each logger, by name."""
    return {name: _name_of(_logger(name).getEffectiveLevel()) for name in sorted(_names())}


def check(changes: Iterable[ConfigChange]) -> None:
    """Check changes of levels, the key of each being the name of a logger.

    Raises:
        KafkaError: INVALID_CONFIG: there is no such logger or level. INVALID_REQUEST: the operation
            is none on levels.
    """
    names = _names()
    for change in changes:
        if change.config_operation not in (SET, DELETE):
            number = change.config_operation
            operation = OTHER_OPERATIONS.get(number, f"Unknown ({number})")
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{operation} operation is not allowed for the BROKER_LOGGER resource",
            )
        if change.name not in names:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.config_operation == DELETE and change.name == ROOT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            )
        if change.config_operation == SET and change.value not in LEVELS:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a "
                f"supported log level. Valid log levels are {', '.join(LEVELS)}",
            )


def alter(changes: Iterable[ConfigChange]) -> None:
    """Make changes that were checked; without a level a logger has that of its parent."""
    for change in changes:
        is_set = change.config_operation == SET
        _logger(change.name).setLevel(LEVELS[change.value or ""] if is_set else logging.NOTSET)


def _names() -> set[str]:
    known = logging.root.manager.loggerDict
    return {ROOT, *(name for name, each in known.items() if isinstance(each, logging.Logger))}


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _name_of(level: int) -> str:
    """Return the name of the lowest level that is not below this one."""
    at_least = [(number, name) for name, number in LEVELS.items() if number >= level]
    return min(at_least, default=(logging.CRITICAL, "FATAL"))[1]
