"""A node that is cut off from other hosts: its packets are dropped, and nobody is told.

A table of nftables in the network namespace of the node drops what arrives from the others and what
is sent to them, between the ports of both. Connections stay open at both ends and time out, as they
do when a switch dies. One table has all rules of a fault: it comes and goes at once.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fault_injection.check import DEADLINE_S
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import CLIENTS, FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target
from fault_injection.mechanisms.connections import parties, refusal

NAMESPACES = Path("/run/netns")
"""Where `ip netns` keeps namespaces, which then outlive their processes."""
PROOF_S = 0.3
"""A connection that is not made for so long is dropped: the hosts are neighbours."""
_TRY = """
import socket, sys
host, port, timeout_s = sys.argv[1:]
try:
    socket.create_connection((host, int(port)), float(timeout_s)).close()
except TimeoutError:
    sys.exit(0)
except OSError as error:
    sys.exit(str(error))
sys.exit("it is made")
"""


class Packets:
    """The mechanism `packets`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        broker = target.broker
        assert broker is not None
        if reason := refusal(spec, broker):
            return reason
        for name, host in ((broker.name, broker.host), *((p.name, p.host) for p in broker.peers)):
            try:
                if not ipaddress.ip_address(host).is_loopback:
                    continue
            except ValueError:
                return f"the address of {name} is not a number: {host!r}"
            return f"{name} is not on a host of its own: it listens at {host}"
        if os.geteuid() != 0:
            return "packets are dropped by root alone"
        if shutil.which("nft") is None or shutil.which("nsenter") is None:
            return "the programs nft and nsenter are missing (Debian: nftables, util-linux)"
        return ""

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return the rules, and the namespace that gets them."""
        broker = target.broker
        assert broker is not None
        assert broker.process is not None
        wanted = parties(spec, broker)
        others = [peer for peer in broker.peers if peer.name in wanted]
        rules, own = [], _any_of(broker.ports)
        for host in dict.fromkeys(peer.host for peer in others):
            theirs = _any_of([port for peer in others if peer.host == host for port in peer.ports])
            ip = _family(host)
            rules += [
                ("input", f"{ip} saddr {host} tcp dport {own}"),
                ("input", f"{ip} saddr {host} tcp sport {theirs}"),
                ("output", f"{ip} daddr {host} tcp dport {theirs}"),
                ("output", f"{ip} daddr {host} tcp sport {own}"),
            ]
        if CLIENTS in wanted:
            ip = _family(broker.host)
            known = _any_of(sorted({peer.host for peer in broker.peers} | {broker.host}))
            client_port = broker.ports[0]
            rules += [
                ("input", f"{ip} saddr != {known} tcp dport {client_port}"),
                ("output", f"{ip} daddr != {known} tcp sport {client_port}"),
            ]
        return {
            "namespace": _namespace(broker.process.pid),
            "table": f"jbodlab_{fault_id}_{os.getpid()}",
            "rules": rules,
            "proofs": [[peer.host, peer.ports[0]] for peer in others if peer.ports],
            "clients": [[broker.host, broker.ports[0]]] if CLIENTS in wanted else [],
        }

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        """Put all rules in force at once."""
        lines = [f"table inet {fault.undo['table']} {{"]
        for chain in ("input", "output"):
            lines += [f"chain {chain} {{", f"type filter hook {chain} priority -10;"]
            lines += [
                f"{rule} counter drop" for where, rule in fault.undo["rules"] if where == chain
            ]
            lines += ["}"]
        _nft(fault, "-f", "-", given="\n".join([*lines, "}", ""]))

    def verify(self, fault: Fault) -> str:
        """Connect from the host of the node, and to it as a client: no answer may come."""
        there = _inside(fault)
        tries = [(there, *each) for each in fault.undo["proofs"]]
        tries += [((), *each) for each in fault.undo["clients"]]
        for words, host, port in tries:
            child = [os.path.realpath(sys.executable), "-I", "-S", "-c", _TRY, host, str(port)]
            done = subprocess.run(
                [*words, *child, str(PROOF_S)],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=DEADLINE_S,
                check=False,
            )
            if done.returncode != 0:
                return f"a connection to {host}:{port} is not dropped: {done.stderr.strip()[-200:]}"
        return ""

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Take the table away; a namespace that is gone has taken it along."""
        if Path(fault.undo["namespace"]).exists() and _dropped(fault) is not None:
            _nft(fault, "delete", "table", "inet", fault.undo["table"])
        return Healing()

    def broken(self, fault: Fault) -> Broken:
        count = _dropped(fault) or 0
        return Broken(what="packets", count=count, first_ns=fault.injected_ns if count else None)


def _family(host: str) -> str:
    return "ip" if ipaddress.ip_address(host).version == 4 else "ip6"


def _any_of(found: Sequence[int] | Sequence[str]) -> str:
    return f"{{ {', '.join(map(str, dict.fromkeys(found)))} }}"


def _namespace(pid: int) -> str:
    """Return the file of a process's network namespace, one that outlives it where there is one."""
    own = Path(f"/proc/{pid}/ns/net")
    named = NAMESPACES.iterdir() if NAMESPACES.is_dir() else iter(())
    return str(next((one for one in named if one.samefile(own)), own))


def _inside(fault: Fault) -> tuple[str, ...]:
    return ("nsenter", f"--net={fault.undo['namespace']}")


def _nft(fault: Fault, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [*_inside(fault), "nft", *words],
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode != 0:
        raise FaultError(f"nft: {done.stderr.strip().splitlines()[0] if done.stderr else 'failed'}")
    return done.stdout


def _dropped(fault: Fault) -> int | None:
    """Return how many packets were dropped; None where the table is not there."""
    try:
        found = json.loads(_nft(fault, "-j", "list", "table", "inet", fault.undo["table"]))
    except (FaultError, OSError):
        return None
    return sum(_counters(found["nftables"]))


def _counters(found: Sequence[Any]) -> Iterator[int]:
    for one in found:
        for word in one.get("rule", {}).get("expr", ()):
            if "counter" in word:
                yield word["counter"]["packets"]
