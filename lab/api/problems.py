"""Problems of requests: what a client is told where something is not carried out (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping

from fault_injection.errors import FaultError
from jbodlab.kafka_admin.errors import NoAnswerError
from jbodlab.vocabulary.errors import JbodlabError
from lab.api.values import Problem
from lab.cluster import NotInTimeError
from lab.errors import LabError

CONTENT_TYPE = "application/problem+json"
TITLES: Mapping[int, tuple[str, str]] = {
    400: ("wrong-request", "The request is wrong"),
    401: ("no-token", "The token is missing or wrong"),
    403: ("forbidden", "The request is refused"),
    404: ("not-found", "There is no such thing"),
    405: ("wrong-method", "The path has no such method"),
    409: ("refused", "It cannot be carried out now"),
    413: ("too-large", "The body is too large"),
    415: ("not-json", "The body is not JSON"),
    421: ("misdirected", "The server has another name"),
    422: ("other-request", "The idempotency key belongs to another request"),
    500: ("failed", "The server has failed"),
    503: ("not-available", "It cannot be asked now"),
}
NOT_IN_TIME = ("not-in-time", "The awaited state did not come in time")
"""Of a 409, too: the cluster is not in that state, which is no failure of the server."""


class RequestError(Exception):
    """A request is not carried out.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def problem(status: int, detail: str, told: tuple[str, str] | None = None) -> Problem:
    """Return what a client is told, by the kind and title of the status or by others."""
    kind, title = told or TITLES[status]
    return Problem(type=f"urn:jbodlab:{kind}", title=title, status=status, detail=detail)


def of_error(error: Exception) -> Problem | None:
    """Return the problem that an error of an action is; None where it is a fault of the server."""
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    match error:
        case RequestError():
            return problem(error.status, line)
        case NotInTimeError():
            return problem(409, line, NOT_IN_TIME)
        case NoAnswerError():
            return problem(503, line)
        case FaultError() | LabError() | JbodlabError():
            return problem(409, line)
    return None
