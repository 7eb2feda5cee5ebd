"""Hosts on one machine: network namespaces on one switch, with a broker and a controller each."""

from __future__ import annotations

import ipaddress
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.vocabulary import kafka_uuid
from lab.cluster import ClusterSpec, layout
from lab.cluster.node import OwnServers
from lab.machine import processes
from tests.cluster.lab_cluster import Cluster

CONTROLLER_PORT, GRPC_PORT, BROKER_PORT = 9093, 9094, 9092
_numbers = itertools.count(1)


def refusal() -> str:
    """Why there can be no hosts here; empty if there can."""
    missing = [tool for tool in ("ip", "nsenter", "nft") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} missing"
    if os.geteuid() != 0:
        return "only root makes network namespaces"
    done = subprocess.run(
        ["unshare", "--net", "nft", "list", "ruleset"], capture_output=True, text=True, check=False
    )
    return f"no network namespaces here: {done.stderr.strip()}" if done.returncode else ""


class _HostServers(OwnServers):
    """Our servers, each on its host."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def command(self, node: NodeState) -> list[str]:
        inside = ["nsenter", f"--net=/run/netns/{self._names[node.host]}"]
        return [*inside, *super().command(node)]


@contextmanager
def on_hosts(root: Path, spec: ClusterSpec, settings: dict[str, str]) -> Iterator[Cluster]:
    """A cluster with a broker on each of its hosts, and the controllers on the first ones."""
    with _hosts(spec.brokers) as names:
        state = _plan(root, spec, list(names))
        cluster = Cluster(state, servers=_HostServers(names))
        try:
            cluster.make(settings)
            cluster.start()
            yield cluster
        finally:
            cluster.close()


def _plan(root: Path, spec: ClusterSpec, addresses: list[str]) -> ClusterState:
    state = layout.plan(
        "hosts",
        root,
        kafka_uuid.to_text(kafka_uuid.random_uuid(os.urandom)),
        # Only root enters a namespace; the servers stay root there.
        processes.own_user(),
        [CONTROLLER_PORT] * spec.controllers + [BROKER_PORT] * spec.brokers,
        spec,
        grpc_ports=[GRPC_PORT] * spec.grpc_count,
    )
    of_controllers, of_brokers = iter(addresses), iter(addresses)
    return replace(
        state,
        nodes=tuple(
            replace(node, host=next(of_brokers if node.role == "broker" else of_controllers))
            for node in state.nodes
        ),
    )


@contextmanager
def _hosts(count: int) -> Iterator[dict[str, str]]:
    """Names of namespaces by their addresses; this machine reaches them as one more host."""
    number = next(_numbers)
    mark = f"{os.getpid()}-{number}"
    # Eight of the addresses for documentation, which no network has.
    *free, own_address = list(ipaddress.ip_network(f"198.51.100.{number % 32 * 8}/29").hosts())
    # In a namespace of its own, as rules of this machine may drop what a bridge forwards.
    switch = f"jbodlab-{mark}-switch"
    with ExitStack() as stack:
        _ip("netns", "add", switch)
        stack.callback(_ip, "netns", "delete", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        own = f"jb{mark}"[:15]
        _ip("link", "add", own, "type", "veth", "peer", "name", "uplink", "netns", switch)
        _ip("address", "add", f"{own_address}/29", "dev", own)
        _ip("link", "set", own, "up")
        found = {}
        for port, address in enumerate(free[:count], start=1):
            name = f"jbodlab-{mark}-{port}"
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
            of_host = ("name", "eth0", "netns", name)
            _ip("-n", switch, "link", "add", f"port{port}", "type", "veth", "peer", *of_host)
            _ip("-n", name, "address", "add", f"{address}/29", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
            found[str(address)] = name
        for port_name in ("uplink", *(f"port{port}" for port in range(1, count + 1))):
            _ip("-n", switch, "link", "set", port_name, "master", "bridge", "up")
        yield found


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=20)
