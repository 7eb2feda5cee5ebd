"""Errors that the tools expect; each becomes one line for the operator and exit code 1."""

from __future__ import annotations

from collections.abc import Iterable

from jbodlab.cli.parser import suggestion
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError


class AdminError(JbodlabError):
    """A failure that the operator reads as it is."""


class NoAnswerError(AdminError):
    """A broker could not be reached, or did not answer in time."""


class RequestError(AdminError):
    """A broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(message or name_of(code))
        self.code = code


class UnsupportedRequestError(AdminError):
    """The brokers do not serve this request, or no version of it that is known here."""


def name_of(code: int) -> str:
    """Return Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def text_of(code: int, message: str | None) -> str:
    """Return what a broker said, or the name of its error code where it said nothing."""
    return message or name_of(code)


def unknown(kind: str, name: str, known: Iterable[str]) -> AdminError:
    """Return the error for a name of a kind, such as `topic`, of which others are known."""
    return AdminError(f"unknown {kind} {name!r}{suggestion(name, known)}")
