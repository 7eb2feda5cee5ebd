"""Requests that the page's server accepts, by who asks."""

from __future__ import annotations

import pytest

from jbodlab.runtime.http_message import HttpRequest
from lab.ui import guards

PORT, TOKEN = 4711, "secret"
GOOD = {
    "host": "127.0.0.1:4711",
    "origin": "http://127.0.0.1:4711",
    "content-type": "application/json",
    "x-jbodlab-token": TOKEN,
}


def refused(method: str, headers: dict[str, str | None]) -> str:
    """Return the status of the refusal, empty if there is none."""
    given = {name: value for name, value in {**GOOD, **headers}.items() if value is not None}
    request = HttpRequest(method=method, path="/heal", query={}, headers=given)
    found = guards.refusal(request, PORT, TOKEN)
    return found[0][:3] if found else ""


def test_the_page_itself_may_ask_and_act() -> None:
    assert refused("GET", {"x-jbodlab-token": None, "origin": None}) == ""
    assert refused("POST", {}) == ""
    there = {"host": "localhost:4711", "origin": "http://localhost:4711"}
    assert refused("POST", there) == ""
    assert refused("POST", {"content-type": "Application/JSON; charset=utf-8"}) == ""


@pytest.mark.parametrize("host", [None, "evil.example", "127.0.0.1", "127.0.0.1:80", "[::1]:4711"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_name_of_this_machine_is_refused(method: str, host: str | None) -> None:
    assert refused(method, {"host": host, "origin": None}) == "421"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:4711", "http://localhost:4711"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_of_another_page_is_refused(method: str, origin: str) -> None:
    assert refused(method, {"origin": origin}) == "403"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": None}, "403"),
        ({"x-jbodlab-token": None}, "403"),
        ({"x-jbodlab-token": "secreu"}, "403"),
        ({"x-jbodlab-token": "é"}, "403"),
        ({"content-type": "text/plain"}, "415"),
        ({"content-type": "application/x-www-form-urlencoded"}, "415"),
        ({"content-type": None}, "415"),
    ],
)
def test_what_changes_something_needs_origin_token_and_json(
    headers: dict[str, str | None], status: str
) -> None:
    assert refused("POST", headers) == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD"])
def test_other_methods_are_refused(method: str) -> None:
    assert refused(method, {}) == "405"


@pytest.mark.parametrize(
    ("query", "headers", "expected"),
    [
        ({}, {}, "403"),
        ({"token": "other"}, {}, "403"),
        ({"token": "é"}, {}, "403"),
        ({"token": TOKEN}, {}, ""),
        ({}, {"x-jbodlab-token": TOKEN}, ""),
    ],
)
def test_what_is_told_of_a_closed_cluster_takes_the_token(
    query: dict[str, str], headers: dict[str, str], expected: str
) -> None:
    request = HttpRequest(
        method="GET", path="/events", query=query, headers={"host": GOOD["host"], **headers}
    )

    found = guards.refusal(request, PORT, TOKEN, is_secret=True)

    assert (found[0][:3] if found else "") == expected
    assert guards.refusal(request, PORT, TOKEN) is None


def test_the_token_of_an_action_is_never_in_its_url() -> None:
    headers = {name: value for name, value in GOOD.items() if name != "x-jbodlab-token"}

    request = HttpRequest(method="POST", path="/heal", query={"token": TOKEN}, headers=headers)

    assert guards.refusal(request, PORT, TOKEN) is not None
