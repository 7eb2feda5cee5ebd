"""Errors of requests to a cluster; the text of each is one line for the operator."""

from __future__ import annotations

from typing import Any

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import JbodlabError

PASSING = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        *(ErrorCode.NOT_COORDINATOR, ErrorCode.LEADER_NOT_AVAILABLE),
        *(ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH),
    }
)
"""Errors that are over once somebody else has taken over; the request has changed nothing."""


class AdminError(JbodlabError):
    """A failure that the operator reads as it is."""


class NoAnswerError(AdminError):
    """A broker could not be reached, or did not answer in time."""


class RequestError(AdminError):
    """A broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(message or name_of(code))
        self.code = int(code)


class UnsupportedRequestError(AdminError):
    """The brokers do not serve this request, or no version of it that is known here."""


def name_of(code: int) -> str:
    """Return Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {int(code)}"


def text_of(code: int, message: str | None) -> str:
    """Return what a broker said, or the name of its error code where it said nothing."""
    return message or name_of(code)


def check(answer: Any, name: str = "") -> None:
    """Insist on an answer without an error.

    Raises:
        RequestError: it has one; the text is what the broker said, behind a name.
    """
    if int(answer.error_code):
        error = RequestError(answer.error_code, getattr(answer, "error_message", None))
        raise RequestError(error.code, f"{name}: {error}") if name else error
