"""How it is said what a fault broke."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from fault_injection.clients import Clients
from fault_injection.mechanism import Broken


@pytest.mark.parametrize(
    ("what", "count", "text"),
    [
        ("processes", 1, "1 process"),
        ("processes", 2, "2 processes"),
        ("files", 1, "1 file"),
        ("bytes", 0, "0 bytes"),
    ],
)
def test_the_noun_agrees_with_the_count(what: str, count: int, text: str) -> None:
    assert str(Broken(what=what, count=count)) == text


def test_what_became_of_clients_is_said_and_kept_as_json() -> None:
    clients = Clients(stayed=3, closed=1, handshakes_failed=0, logins_failed=7, requests_refused=2)
    broken = Broken(what="logins", count=8, clients=clients)

    assert str(broken) == "3 connections stayed, 1 closed, 7 logins failed, 2 requests refused"
    assert clients.refused == 9
    assert Broken.of_json(json.loads(json.dumps(asdict(broken)))) == broken


def test_what_nobody_counts_is_not_said() -> None:
    clients = Clients(stayed=3, closed=0)

    assert str(clients) == "3 connections stayed, 0 closed"
    assert clients.refused == 0
