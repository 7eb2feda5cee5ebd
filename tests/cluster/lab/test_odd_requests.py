"""Odd requests to the HTTP API: each has its answer, and the cluster is whole afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.machine.folders import make_folder, remove_folder
from tests.cluster.lab.odd_requests import Odd
from tests.cluster.lab.test_serve import Served, ended, started

pytestmark = pytest.mark.cluster
SEED = int(os.environ.get("JBODLAB_TEST_SEED", "1"))


@pytest.fixture
def served() -> Iterator[Served]:
    folder = make_folder()
    found = started(folder, "--kind", "folder", "--disks", "2")
    try:
        yield found
    finally:
        ended(found)
        remove_folder(folder)


def sent(served: Served, count: int) -> None:
    """Two clients at once send so many requests each."""
    clients = [Odd(served.port, SEED), Odd(served.port, SEED + 1)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda one: one.send(count), clients))

    assert [wrong for one in clients for wrong in one.wrong] == []
    assert {200, 400, 404} <= {status for one in clients for status in one.statuses}
    served.done("POST", "/heal")
    assert served.done("GET", "/health") == {"status": "ok", "problems": []}
    assert served.done("GET", "/faults") == []


def test_two_clients_that_send_odd_requests_get_answers_and_break_nothing_for_good(
    served: Served,
) -> None:
    sent(served, 60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_odd_requests(served: Served) -> None:
    sent(served, 5000)
