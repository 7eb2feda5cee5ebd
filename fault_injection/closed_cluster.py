"""A cluster of the lab that is closed, as faults of its certificates, users and rights know it.

ROOT/security/    ca.pem, ca.key, users.json, admin.properties, admin.pem, admin.key
ROOT/keys/        broker-1.pem: key and certificate of a server, who looks at it again and again

It is asked as its administrator does, by the own client, and watched from outside: the kernel lists
who is connected to it, its brokers' metrics count whom they refuse.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_injection import sockets
from fault_injection.clients import Clients

SASL_SSL = "sasl_ssl"
SECURITY = "security"
"""Name of the folder with all that belongs to clients."""
ADMIN = "admin"
"""A user who may do everything, as the lab itself does."""
ASK_S = 3.0
ONE_QUESTION_S = 0.3

_FAILED_HANDSHAKES = "jbodlab_tls_handshake_failures_total"
_LOGINS = "jbodlab_authentications_total"
_AUTHORIZATIONS = "jbodlab_authorizations_total"
_COUNTED: Mapping[str, tuple[str, str]] = {
    "handshakes_failed": (_FAILED_HANDSHAKES, ""),
    "logins_failed": (_LOGINS, 'result="failure"'),
    "requests_refused": (_AUTHORIZATIONS, 'result="denied"'),
}
"""Names of the counts, by the metric and a label of it."""
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedBroker:
    """A broker of it.

    Attributes:
        name: As people call it.
        port: Where clients reach it.
        metrics_port: Where it shows its metrics; 0 for Apache Kafka's, which does not count.
        pid: Its process; 0 where it does not run.
    """

    name: str
    host: str
    port: int
    metrics_port: int
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedCluster:
    """All that has to be known of it.

    Attributes:
        security: How clients reach it: `sasl_ssl`, `ssl` or `mtls`.
        root: Its folder.
        brokers: Its brokers.
        is_kafka: Whether they are Apache Kafka's.
    """

    security: str
    root: Path
    brokers: tuple[ClosedBroker, ...]
    is_kafka: bool = False

    @property
    def application(self) -> str:
        """The user of applications."""
        return "ANONYMOUS" if self.security == "ssl" else "alice"

    @property
    def folder(self) -> Path:
        """Folder of clients and of the authority; the journal knows its faults by it."""
        return self.root / SECURITY

    def key_store(self, name: str) -> Path:
        """Return the file with key and certificate of a server."""
        return self.root / "keys" / f"{name}.pem"

    def passwords(self) -> dict[str, str]:
        """Return the passwords of its users; empty where nobody logs in."""
        found: dict[str, str] = json.loads((self.folder / "users.json").read_text("utf-8"))
        return found


def hosts(name: str, host: str) -> tuple[str, ...]:
    """Return what the certificate of a server names; in containers it is reached by its name."""
    return tuple(dict.fromkeys(("localhost", "127.0.0.1", "::1", name, host)))


def look(brokers: Iterable[ClosedBroker], others: Iterable[ClosedBroker]) -> dict[str, Any]:
    """Return who is connected to brokers now, and what they have counted, as JSON has it.

    Args:
        brokers: Those whose clients are looked at.
        others: All brokers, whose connections to each other are none of clients.
    """
    brokers, others = list(brokers), list(others)
    connected = _connected(brokers, others)
    # A client with one question only is gone by then, and would seem to have been sent away.
    time.sleep(ONE_QUESTION_S)
    return {
        "brokers": [[each.host, each.port, each.metrics_port] for each in brokers],
        "connected": sorted(connected & _connected(brokers, others)),
        "counts": _counts([(each.host, each.metrics_port) for each in brokers]),
    }


def became(before: Mapping[str, Any], *, own_handshakes: int = 0, own_logins: int = 0) -> Clients:
    """Return what became of clients since `look`.

    Args:
        before: The earlier result of `look`.
        own_handshakes: Handshakes of the injector that have failed since.
        own_logins: Its logins that have failed.
    """
    was = {tuple(each) for each in before["connected"]}
    there = {(each.local_port, each.remote_port) for each in sockets.connections()}
    counts = _counts([(host, metrics_port) for host, _, metrics_port in before["brokers"]])
    own = {"handshakes_failed": own_handshakes, "logins_failed": own_logins}
    # A broker that was started again counts from 0.
    grown = {
        name: max(0, count - before["counts"].get(name, 0) - own.get(name, 0))
        for name, count in counts.items()
    }
    return Clients(stayed=len(was & there), closed=len(was - there), **grown)


def _connected(
    brokers: Iterable[ClosedBroker], others: Iterable[ClosedBroker]
) -> set[tuple[int, int]]:
    ports = {each.port for each in brokers}
    found = sockets.connections()
    of_brokers = sockets.owners((each.name, each.pid) for each in others if each.pid)
    ends = {(each.local_port, each.remote_port): each.inode for each in found}
    return {
        (each.local_port, each.remote_port)
        for each in found
        if each.local_port in ports
        and ends.get((each.remote_port, each.local_port)) not in of_brokers
    }


def _counts(addresses: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return what brokers have counted together; nothing where none of them counts."""
    counting = [(host, port) for host, port in addresses if port]
    if not counting:
        return {}
    found: Counter[str] = Counter()
    for host, port in counting:
        for name, labels, value in _SAMPLE.findall(_metrics(host, port)):
            for what, (metric, label) in _COUNTED.items():
                if name == metric and label in labels:
                    found[what] += int(float(value))
    return {name: found[name] for name in _COUNTED}


def _metrics(host: str, port: int) -> str:
    """Return the metrics of a broker; nothing where it does not answer."""
    # Every command of the lab imports this module, few of them ask.
    import http.client

    connection = http.client.HTTPConnection(host, port, timeout=ASK_S)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode("utf-8", "replace")
    return ""
