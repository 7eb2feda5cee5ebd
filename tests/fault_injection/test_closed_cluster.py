"""The effect on clients is the difference of two looks, without what the injector itself did."""

from __future__ import annotations

from typing import Any

import pytest

from fault_injection import closed_cluster, sockets
from fault_injection.clients import Clients
from fault_injection.closed_cluster import ClosedBroker, became, look
from fault_injection.sockets import Connection

METRICS = """\
# TYPE jbodlab_tls_handshake_failures_total counter
jbodlab_tls_handshake_failures_total{{listener="CLIENT",reason="alert"}} {handshakes}
jbodlab_tls_handshake_failures_total{{listener="CLIENT",reason="not_tls"}} 2
jbodlab_authentications_total{{listener="CLIENT",mechanism="PLAIN",result="success"}} 90
jbodlab_authentications_total{{listener="CLIENT",mechanism="PLAIN",result="failure"}} {logins}
jbodlab_authorizations_total{{result="allowed"}} 1000
jbodlab_authorizations_total{{result="denied"}} {denials}
"""
FIRST = ClosedBroker(name="broker-1", host="h", port=9001, metrics_port=8001, pid=11)
SECOND = ClosedBroker(name="broker-2", host="h", port=9002, metrics_port=8002, pid=22)


class Machine:
    """The connections of a machine, and the metrics of its brokers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ends: list[tuple[int, int]] = []
        self.of_brokers: dict[int, str] = {}
        self.counts: dict[int, dict[str, int]] = {}
        monkeypatch.setattr(closed_cluster, "ONE_QUESTION_S", 0)
        monkeypatch.setattr(sockets, "connections", self.connections)
        monkeypatch.setattr(sockets, "owners", lambda _pids: self.of_brokers)
        monkeypatch.setattr(closed_cluster, "_metrics", self.metrics)

    def connections(self) -> list[Connection]:
        return [
            Connection(*ports, inode=1000 * number + end)
            for number, (local, remote) in enumerate(self.ends, start=1)
            for end, ports in enumerate([(local, remote), (remote, local)])
        ]

    def metrics(self, _host: str, port: int) -> str:
        found = {"handshakes": 0, "logins": 0, "denials": 0} | self.counts.get(port, {})
        return METRICS.format(**found)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_connections_of_clients_are_counted_and_those_of_brokers_are_not(machine: Machine) -> None:
    machine.ends = [(9001, 50_001), (9001, 50_002), (9001, 50_003), (9002, 50_004)]
    # The other end of the third is a broker's.
    machine.of_brokers = {3001: "broker-2"}
    before = look([FIRST], [FIRST, SECOND])

    machine.ends = [(9001, 50_001), (9001, 50_005)]

    assert became(before) == Clients(
        stayed=1, closed=1, handshakes_failed=0, logins_failed=0, requests_refused=0
    )


def test_refusals_of_all_brokers_are_counted_from_then_on(machine: Machine) -> None:
    machine.counts = {8001: {"logins": 5}, 8002: {"logins": 3, "denials": 1}}
    before = look([FIRST, SECOND], [FIRST, SECOND])

    machine.counts = {8001: {"logins": 6, "handshakes": 4}, 8002: {"logins": 5, "denials": 2}}

    assert became(before, own_handshakes=1, own_logins=1) == Clients(
        stayed=0, closed=0, handshakes_failed=3, logins_failed=2, requests_refused=1
    )


def test_a_broker_that_was_started_again_counts_from_nothing(machine: Machine) -> None:
    machine.counts = {8001: {"logins": 50}}
    before = look([FIRST], [FIRST])

    machine.counts = {8001: {"logins": 2}}

    assert became(before).logins_failed == 0


def test_brokers_without_such_metrics_tell_of_connections_only(machine: Machine) -> None:
    machine.ends = [(9001, 50_001)]
    silent: Any = ClosedBroker(name="broker-1", host="h", port=9001, metrics_port=0, pid=11)
    before = look([silent], [silent])

    assert became(before) == Clients(stayed=1, closed=0)
