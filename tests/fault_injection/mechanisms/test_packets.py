"""Packets that are dropped between hosts: for whom, and on which ports."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection import processes
from fault_injection.kinds import spec
from fault_injection.mechanism import Peer, Target, TargetBroker
from fault_injection.mechanisms.packets import Packets

PEERS = (
    Peer(name="controller-100", ports=(9093, 9094), host="192.0.2.1"),
    Peer(name="broker-1", ports=(9092,), host="192.0.2.1"),
    Peer(name="broker-3", ports=(9092,), host="192.0.2.3"),
)
BROKER = TargetBroker(
    name="broker-2",
    folder=Path("/nonexistent"),
    process=processes.find(os.getpid()),
    host="192.0.2.2",
    ports=(9092,),
    peers=PEERS,
)


def target(**changes: object) -> Target:
    return Target(directory=None, broker=replace(BROKER, **changes), uid=0, gid=0)  # type: ignore[arg-type]


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/sbin/{name}")


@pytest.mark.usefixtures("as_root")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"host": "127.0.0.1"}, "broker-2 is not on a host of its own: it listens at 127.0.0.1"),
        ({"host": "broker-2"}, "the address of broker-2 is not a number: 'broker-2'"),
        ({"peers": ()}, "the controller's address is unknown"),
        ({"process": None}, "broker-2 does not run"),
    ],
)
def test_only_nodes_with_hosts_of_their_own_lose_packets(
    changes: dict[str, object], words: str
) -> None:
    assert Packets().refusal(spec("cut"), target(**changes)) == words


def test_only_root_drops_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1500)
    assert Packets().refusal(spec("cut"), target()) == "packets are dropped by root alone"


def test_packets_between_two_brokers_are_dropped_and_those_of_a_controller_beside_are_not() -> None:
    found = Packets().prepare(spec("cut", {"from": "broker-1"}), target(), 7)

    assert found["rules"] == [
        ("input", "ip saddr 192.0.2.1 tcp dport { 9092 }"),
        ("input", "ip saddr 192.0.2.1 tcp sport { 9092 }"),
        ("output", "ip daddr 192.0.2.1 tcp dport { 9092 }"),
        ("output", "ip daddr 192.0.2.1 tcp sport { 9092 }"),
    ]
    assert found["proofs"] == [["192.0.2.1", 9092]]
    assert found["clients"] == []


def test_packets_of_clients_are_those_of_no_host_of_the_cluster() -> None:
    found = Packets().prepare(spec("cut", {"from": "clients"}), target(), 7)

    hosts = "{ 192.0.2.1, 192.0.2.2, 192.0.2.3 }"
    assert found["rules"] == [
        ("input", f"ip saddr != {hosts} tcp dport 9092"),
        ("output", f"ip daddr != {hosts} tcp sport 9092"),
    ]
    assert found["clients"] == [["192.0.2.2", 9092]]
