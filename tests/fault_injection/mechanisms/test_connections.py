"""Brokers that are cut off: who is refused and dropped, and who is not.

The nodes are small processes that connect to each other when told to. The effect of a cut on a real
broker is shown in `tests/cluster/metadata/test_cut_off_brokers.py`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection import kinds, operations, processes, registry
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.mechanism import Peer, Target, TargetBroker
from fault_injection.preload import Control
from lab.machine.ports import HeldPorts
from lab.machine.waiting import wait_for
from tests.fault_injection import making
from tests.fault_injection.patient import SERVER_UID, USER

pytestmark = pytest.mark.process

NODE = """
import json, socket, sys, threading

def echo(one):
    with one:
        try:
            while data := one.recv(1):
                one.sendall(data)
        except OSError:
            pass

def serve(listener):
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()

def answers(one):
    try:
        one.sendall(b"x")
        return 0 if one.recv(1) == b"x" else 104
    except OSError as error:
        return error.errno or 110

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
threading.Thread(target=serve, args=(listener,), daemon=True).start()
held = {}
print("ready", flush=True)
for line in sys.stdin:
    what, port = json.loads(line)
    if what == "connect":
        try:
            held[port] = socket.create_connection(("127.0.0.1", port), 10)
        except OSError as error:
            print(error.errno or 110, flush=True)
            continue
    print(answers(held[port]), flush=True)
"""


class Node:
    """A process that listens, and connects when told to."""

    def __init__(self, port: int, environment: dict[str, str]) -> None:
        as_user = ["setpriv", f"--reuid={SERVER_UID}", f"--regid={SERVER_UID}", "--clear-groups"]
        command = [sys.executable, "-c", NODE, str(port)]
        self.port = port
        self._child = subprocess.Popen(
            [*as_user, *command] if os.geteuid() == 0 else command,
            env={**os.environ, **environment},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == "ready\n"
        self.pid = self._child.pid

    def _ask(self, what: str, port: int) -> int:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps([what, port]) + "\n")
        self._child.stdin.flush()
        return int(self._child.stdout.readline())

    def connect(self, other: Node) -> int:
        """Connect and be answered; returns the errno, 0 if that went well."""
        return self._ask("connect", other.port)

    def still(self, other: Node) -> int:
        """Be answered over the connection that was made last."""
        return self._ask("again", other.port)

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()


class Network:
    """A controller, three brokers that follow rules, and a client: this process."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.journal = folder / "faults.jsonl"
        self.folder = folder
        self.rules = [Control.create(folder / f"rules-{number}", *USER) for number in (1, 2, 3)]
        self.nodes: list[Node] = []
        self.controller = self._node(ports[0], {})
        self.brokers = [
            self._node(port, rules.environment())
            for port, rules in zip(ports[1:], self.rules, strict=True)
        ]
        self.one, self.two, self.three = self.brokers

    def _node(self, port: int, environment: dict[str, str]) -> Node:
        node = Node(port, environment)
        self.nodes.append(node)
        return node

    def patient(self, number: int) -> TargetBroker:
        node = self.brokers[number - 1]
        return TargetBroker(
            name=f"broker-{number}",
            folder=self.folder / f"broker-{number}",
            process=processes.find(node.pid),
            rules=self.rules[number - 1].path,
            host="127.0.0.1",
            ports=(node.port,),
            peers=(
                Peer(name="controller-100", ports=(self.controller.port,)),
                *self._others(number),
            ),
        )

    def _others(self, number: int) -> list[Peer]:
        return [
            Peer(
                name=f"broker-{other}",
                ports=(self.brokers[other - 1].port,),
                pid=self.brokers[other - 1].pid,
                rules=self.rules[other - 1].path,
            )
            for other in (1, 2, 3)
            if other != number
        ]

    @contextlib.contextmanager
    def cut(self, number: int, **words: object) -> Iterator[Fault]:
        uid = SERVER_UID if os.geteuid() == 0 else os.geteuid()
        target = Target(broker=self.patient(number), uid=uid, gid=uid)
        fault = making.inject(self.journal, "cut", target, set_timer=making.no_timer, **words)
        yield fault
        making.heal(self.journal, fault)

    def dial(self, broker: Node) -> bool:
        """Return whether a client that connects is answered."""
        with contextlib.suppress(ConnectionError):
            one = socket.create_connection(("127.0.0.1", broker.port), 10)
            with one:
                one.sendall(b"x")
                return one.recv(1) == b"x"
        return False


@pytest.fixture
def network() -> Iterator[Network]:
    folder = Path(tempfile.mkdtemp(prefix="jbod-fault-test-"))
    folder.chmod(0o755)
    found = None
    with HeldPorts.hold(4) as ports:
        try:
            found = Network(folder, ports.numbers)
            yield found
        finally:
            for node in [] if found is None else found.nodes:
                node.kill()
            shutil.rmtree(folder)


def connected(network: Network) -> dict[str, int]:
    """Connections between nodes; 0 where one is made."""
    return {
        "one to controller": network.one.connect(network.controller),
        "one to two": network.one.connect(network.two),
        "two to one": network.two.connect(network.one),
        "two to three": network.two.connect(network.three),
        "client to one": 0 if network.dial(network.one) else errno.ECONNREFUSED,
        "client to two": 0 if network.dial(network.two) else errno.ECONNREFUSED,
    }


NOBODY = ("one to controller", "one to two", "two to one", "client to one")
CUTS = {
    "from all": ({}, NOBODY),
    "from the controller": ({"from_": "controller"}, ("one to controller",)),
    "from brokers": ({"from_": ["brokers"]}, ("one to two", "two to one")),
    "from one broker": ({"from_": "broker-2"}, ("one to two", "two to one")),
    "from another broker": ({"from_": "broker-3"}, ()),
    "from clients": ({"from_": "clients"}, ("client to one",)),
    "from two of them": (
        {"from_": "controller,clients"},
        ("one to controller", "client to one"),
    ),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_broker_is_cut_off_from_those_who_are_named_and_from_nobody_else(
    network: Network, name: str
) -> None:
    words, parted = CUTS[name]
    assert set(connected(network).values()) == {0}

    with network.cut(1, **words):
        during = connected(network)

    assert {pair for pair, code in during.items() if code == errno.ECONNREFUSED} == set(parted)
    assert {code for pair, code in during.items() if pair not in parted} <= {0}
    assert set(connected(network).values()) == {0}


@pytest.mark.parametrize(("words", "two", "client"), [("clients", 0, 1), ("brokers", 1, 0)])
def test_connections_that_are_there_are_dropped_by_who_has_the_other_end(
    network: Network, words: str, two: int, client: int
) -> None:
    assert network.two.connect(network.one) == network.two.connect(network.three) == 0
    with socket.create_connection(("127.0.0.1", network.one.port), 10) as mine:
        mine.sendall(b"x")
        assert mine.recv(1) == b"x"

        with network.cut(1, from_=words) as fault:
            try:
                mine.sendall(b"x")
                is_mine_dropped = mine.recv(1) == b""
            except ConnectionError:
                is_mine_dropped = True
            found = operations.broken(fault)

            assert (bool(network.two.still(network.one)), is_mine_dropped) == (two, client)
            assert network.two.still(network.three) == 0
            assert found.what == "connections"
            assert found.count >= 1
            assert found.first_ns is not None


def test_what_is_refused_while_a_broker_is_cut_off_is_counted(network: Network) -> None:
    with network.cut(1, from_="controller") as fault:
        assert operations.broken(fault).count == 0
        for _ in range(3):
            assert network.one.connect(network.controller) == errno.ECONNREFUSED

        assert operations.broken(fault).count == 3


def test_a_cut_ends_by_itself_at_the_end_of_its_length(network: Network) -> None:
    with network.cut(1, from_="controller", for_="300ms"):
        wait_for(
            "the rules' own end",
            lambda: network.one.connect(network.controller) == 0,
            deadline_s=10,
        )


@pytest.mark.parametrize(
    ("changes", "words", "reason"),
    [
        ({"process": None}, {}, "broker-1 does not run"),
        ({"rules": None}, {}, "broker-1 runs without the library"),
        (
            {},
            {"from": "broker-7"},
            "cannot cut broker-1 off from broker-7: the cluster has no",
        ),
        (
            {},
            {"from": "broker-1"},
            "cannot cut broker-1 off from broker-1: the cluster has no",
        ),
        ({"peers": ()}, {}, "the controller's address is unknown"),
        ({"host": "10.0.0.1"}, {}, "only loopback addresses can be cut off, not 10.0.0.1"),
    ],
)
def test_a_cut_that_cannot_be_made_is_refused_before_anything_happens(
    network: Network, changes: dict[str, object], words: dict[str, object], reason: str
) -> None:
    patient = replace(network.patient(1), **changes)

    with pytest.raises(FaultError, match=reason):
        registry.choose(kinds.spec("cut", words), Target(broker=patient, uid=0, gid=0))


def test_another_broker_that_follows_no_rules_is_told_by_its_name(network: Network) -> None:
    patient = network.patient(1)
    peers = tuple(replace(peer, rules=None) for peer in patient.peers)
    target = Target(broker=replace(patient, peers=peers), uid=0, gid=0)

    assert "broker-2 runs without the library" in registry.check(kinds.spec("cut", {}), target)
    assert registry.check(kinds.spec("cut", {"from": "controller"}), target) == ""
