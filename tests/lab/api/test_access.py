"""Rights to requests of the API."""

from __future__ import annotations

import pytest

from lab.api.access import Access
from lab.api.problems import RequestError

TOKEN = "secret"
HOST = "127.0.0.1:4711"
HERE = frozenset((HOST, "localhost:4711"))
OPEN = Access(token="", is_secret=True, hosts=HERE)
PAGE = Access(token=TOKEN, is_secret=False, hosts=HERE)
FAR = Access(token=TOKEN, is_secret=True, hosts=frozenset())
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("access", "method", "headers", "query", "status"),
    [
        # A foreign name that resolves to this machine is refused.
        (OPEN, "GET", {"host": "evil.example"}, {}, 421),
        (OPEN, "GET", {"host": "127.0.0.1:80"}, {}, 421),
        (OPEN, "GET", {"host": "localhost:4711"}, {}, 0),
        (FAR, "GET", {"host": "kafka.example", **BEARER}, {}, 0),
        # A request of another page is refused; programs send no Origin.
        (OPEN, "POST", {"origin": "http://evil.example"}, {}, 403),
        (OPEN, "GET", {"origin": "null"}, {}, 403),
        (OPEN, "POST", {"origin": "http://localhost:4711"}, {}, 403),
        (OPEN, "POST", {"origin": f"http://{HOST}"}, {}, 0),
        (OPEN, "POST", {}, {}, 0),
        # A form of another page cannot say that its body is JSON.
        (OPEN, "POST", {"content-type": "text/plain"}, {}, 415),
        (OPEN, "POST", {"content-type": "application/x-www-form-urlencoded"}, {}, 415),
        (OPEN, "POST", {"content-type": "Application/JSON; charset=utf-8"}, {}, 0),
        # The token is needed by changes, and by everything where others reach the server.
        (PAGE, "GET", {}, {}, 0),
        (PAGE, "POST", {}, {}, 401),
        (PAGE, "DELETE", {"authorization": "Bearer secreu"}, {}, 401),
        (PAGE, "POST", {"authorization": "Bearer é"}, {}, 401),
        (PAGE, "POST", {"authorization": f"bearer {TOKEN}"}, {}, 0),
        (PAGE, "POST", {"x-jbodlab-token": TOKEN}, {}, 0),
        (FAR, "GET", {}, {}, 401),
        (FAR, "GET", BEARER, {}, 0),
        # Streams and links carry it in the query, changes never.
        (FAR, "GET", {}, {"token": TOKEN}, 0),
        (FAR, "GET", {}, {"token": "other"}, 401),
        (FAR, "POST", {}, {"token": TOKEN}, 401),
    ],
)
def test_who_may_ask_and_change(
    access: Access, method: str, headers: dict[str, str], query: dict[str, str], status: int
) -> None:
    found = 0
    try:
        access.check(method, {"host": HOST, **headers}, query, is_public=False)
    except RequestError as error:
        found = error.status

    assert found == status


def test_what_tells_nothing_of_the_cluster_needs_no_token() -> None:
    FAR.check("GET", {"host": HOST}, {}, is_public=True)
