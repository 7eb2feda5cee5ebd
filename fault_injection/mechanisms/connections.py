"""A node that is cut off: connections are refused from now on, and those there are dropped.

Every node follows a file of rules by the preloaded library. One that is cut off refuses to
connect to whom it is cut off from, and to be connected to by clients; other nodes refuse to
connect to it. Where clients are cut off and brokers are not, these are told apart by the address
that they connect from. The rules come first, then what is connected already is shut down.
Controllers connect to each other, brokers to controllers, and controllers to no broker.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fault_injection import process_control, sockets
from fault_injection.check import DEADLINE_S, as_user
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import BROKERS, CLIENTS, CONTROLLER, FaultSpec
from fault_injection.mechanism import Broken, Healing, Peer, RecordUndo, Start, Target, TargetBroker
from fault_injection.mechanisms.followers import new_rules
from fault_injection.preload import CallClass, Control, Rule
from fault_injection.sockets import Connection
from jbodlab.cli.lab_state import ProcessState

_TRY = """
import errno, socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
        print(0)
    except OSError as error:
        print(error.errno or errno.ETIMEDOUT)
"""


class Connections:
    """The mechanism `connections`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        broker = target.broker
        assert broker is not None
        if reason := refusal(spec, broker):
            return reason
        cut_off = parties(spec, broker)
        with contextlib.suppress(ValueError):
            if not ipaddress.ip_address(broker.host).is_loopback:
                return f"only loopback addresses can be cut off, not {broker.host}"
        follow = [(broker.name, broker.rules)]
        follow += [
            (peer.name, peer.rules)
            for peer in _connecting(broker)
            if peer.name in cut_off or CLIENTS in cut_off
        ]
        for name, rules in follow:
            if rules is None:
                return broker.advice.not_preloaded(name)
        if reason := process_control.refusal(broker, must_run=True):
            return reason
        assert broker.process is not None
        return sockets.refusal(broker.process.pid)

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return the rules, with the files and counters that they get."""
        broker = target.broker
        assert broker is not None
        assert broker.process is not None
        assert broker.rules is not None
        cut_off = parties(spec, broker)
        refused = [port for peer in broker.peers if peer.name in cut_off for port in peer.ports]
        rules = []
        if refused:
            rules.append(_entry(broker.rules, CallClass.CONNECT, refused))
        if CLIENTS in cut_off:
            rules.append(_entry(broker.rules, CallClass.ACCEPT, broker.ports[:1]))
        for peer in _connecting(broker):
            if peer.name in cut_off:
                rules.append(_entry(peer.rules, CallClass.CONNECT, broker.ports))
            elif CLIENTS in cut_off:
                rules.append(_entry(peer.rules, CallClass.CONNECT, broker.ports, marks=True))
        return {
            "rules": rules,
            "parties": cut_off,
            "refused": [f"{broker.host}:{port}" for port in refused],
            "address": f"{broker.host}:{broker.ports[0]}",
            "ports": list(broker.ports),
            "peers": [[peer.name, list(peer.ports), peer.pid] for peer in broker.peers],
            "process": msgspec.structs.asdict(broker.process),
            "dropped": 0,
        }

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        """Put the rules in force, then shut down what is connected."""
        for entry in fault.undo["rules"]:
            control = Control.open(Path(entry["file"]))
            control.impose(_rule(entry), entry["counter"], fault.length_s)
        pid = ProcessState(**fault.undo["process"]).pid
        cut_off = fault.undo["parties"]
        dropped = sockets.shut_down(pid, lambda one: self._party(one, fault) in cut_off)
        record({"dropped": dropped})

    def verify(self, fault: Fault) -> str:
        """Let a child that follows the rules connect, and connect to the broker as a client."""
        refused = fault.undo["refused"]
        if refused and (reason := self._verify_connecting(fault, refused)):
            return reason
        if CLIENTS in fault.undo["parties"]:
            return _verify_dropping(fault.broker, fault.undo["address"])
        return ""

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Take the rules back; whoever is disconnected connects again."""
        for entry in fault.undo["rules"]:
            path = Path(entry["file"])
            if path.exists():
                Control.open(path).lift(entry["counter"], _rule(entry))
        return Healing()

    def broken(self, fault: Fault) -> Broken:
        count, dropped = 0, fault.undo["dropped"]
        moments = [fault.injected_ns] if dropped else []
        for entry in fault.undo["rules"]:
            with contextlib.suppress(FaultError):
                found = Control.open(Path(entry["file"])).counters_of(entry["counter"])
                count += found.broken
                moments += [found.first_ns, found.last_ns]
        known = [moment for moment in moments if moment is not None]
        return Broken(
            what="connections",
            count=count + dropped,
            first_ns=min(known, default=None),
            last_ns=max(known, default=None),
        )

    def _party(self, one: Connection, fault: Fault) -> str:
        """Return who is at the other end of a connection of the node."""
        peers = fault.undo["peers"]
        for name, ports, _ in peers:
            if one.remote_port in ports:
                return str(name)
        if one.local_port not in fault.undo["ports"]:
            return CLIENTS
        other = next(
            (
                each.inode
                for each in sockets.connections()
                if (each.local_port, each.remote_port) == (one.remote_port, one.local_port)
            ),
            0,
        )
        return sockets.owners((name, pid) for name, _, pid in peers if pid).get(other, CLIENTS)

    def _verify_connecting(self, fault: Fault, refused: Sequence[str]) -> str:
        with new_rules(fault) as copy, socket.create_server(("127.0.0.1", 0)) as open_to_all:
            copy.impose(_rule(fault.undo["rules"][0]))
            allowed = f"127.0.0.1:{open_to_all.getsockname()[1]}"
            try:
                done = subprocess.run(
                    [os.path.realpath(sys.executable), "-I", "-S", "-c", _TRY, allowed, *refused],
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=DEADLINE_S,
                    check=False,
                    **as_user(fault.uid, fault.gid, copy.environment()),
                )
            except subprocess.TimeoutExpired:
                return "the process that tries to connect does not answer"
        codes = [int(line) for line in done.stdout.split()]
        if len(codes) != 1 + len(refused) or codes[0]:
            return "the process that tries to connect cannot connect at all"
        for address, code in zip(refused, codes[1:], strict=True):
            if code != errno.ECONNREFUSED:
                return f"a connection to {address} is not refused"
        return ""


def refusal(spec: FaultSpec, broker: TargetBroker) -> str:
    """Return why a node cannot be cut off from whom a fault names; empty if it can."""
    if broker.process is None:
        return f"{broker.name} does not run"
    known = {CONTROLLER, BROKERS, CLIENTS, *(peer.name for peer in broker.peers)}
    for word in spec.cut_from:
        if word not in known:
            return f"cannot cut {broker.name} off from {word}: the cluster has no such node"
    if not broker.is_broker and CLIENTS in spec.cut_from:
        return f"clients are not connected to {broker.name}"
    controllers = [peer.ports for peer in broker.peers if peer.is_controller]
    if not broker.is_controller and _names(spec, CONTROLLER) and not any(controllers):
        return "the controller's address is unknown"
    if not parties(spec, broker):
        return f"there is nobody to cut {broker.name} off from"
    return ""


def parties(spec: FaultSpec, broker: TargetBroker) -> list[str]:
    """Return from whom a node is cut off: other nodes by name, clients."""
    found = [CLIENTS] if broker.is_broker and _names(spec, CLIENTS) else []
    return found + [
        one.name
        for one in broker.peers
        if one.name in spec.cut_from or _names(spec, CONTROLLER if one.is_controller else BROKERS)
    ]


def _names(spec: FaultSpec, word: str) -> bool:
    """Return whether a node is cut off from all of a sort."""
    return not spec.cut_from or word in spec.cut_from


def _connecting(broker: TargetBroker) -> list[Peer]:
    """Return the nodes that connect to one."""
    return [peer for peer in broker.peers if broker.is_controller or not peer.is_controller]


def _entry(
    file: Path | None,
    calls: CallClass,
    ports: Sequence[int],
    *,
    marks: bool = False,
) -> dict[str, Any]:
    assert file is not None
    return {
        "file": str(file),
        "counter": Control.open(file).reserve_counter(),
        "calls": int(calls),
        "ports": list(ports),
        "errno": 0 if marks else errno.ECONNREFUSED,
    }


def _rule(entry: dict[str, Any]) -> Rule:
    return Rule(
        directory=Path("/"),
        calls=CallClass(entry["calls"]),
        errno=entry["errno"],
        ports=tuple(entry["ports"]),
    )


def _verify_dropping(name: str, address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), DEADLINE_S) as one:
            one.settimeout(DEADLINE_S)
            return f"{name} answers a client" if one.recv(1) else ""
    except TimeoutError:
        return f"{name} does not drop the connection of a client"
    except OSError:
        return ""
