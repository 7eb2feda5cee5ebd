"""What an administrator takes away by requests: the credential of a user, or all of their rights.

The requests are Kafka's, sent with the file of the cluster's administrator. Brokers apply them when
the metadata has reached them, which is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_injection import closed_cluster, security_requests
from fault_injection.closed_cluster import SASL_SSL, ClosedCluster
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target
from jbodlab.vocabulary.errors import JbodlabError

if TYPE_CHECKING:
    from jbodlab.peers.client import KafkaConnection
    from jbodlab.peers.client_security import ClientSecurity

ADMIN = "admin"
ASK_S = 5.0
APPLIED_S = 10.0
"""Longest wait for the brokers to know what the controller has decided."""
LOOK_S = 0.05
CLIENT_ID = "jbodlab-faults"


Question = Callable[["KafkaConnection"], Awaitable[Any]]
"""What is asked over a connection."""


class Administrator:
    """The mechanism `administrator`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        cluster = target.cluster
        if cluster is None:
            return f"the cluster is open to everybody: {target.advice.closed}"
        if not any(each.pid for each in cluster.brokers):
            return "no broker runs"
        user = spec.principal or cluster.application
        if spec.kind == "user-removed":
            return _no_user(cluster, user)
        try:
            found = _acls(_Cluster.of(cluster), user)
        except (JbodlabError, OSError) as error:
            return f"the rights of {user} are not known: {error}"
        return "" if found else f"{user} has no access control entries to lose"

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return what is taken away, and who is connected to the brokers."""
        cluster = target.cluster
        assert cluster is not None
        running = [each for each in cluster.brokers if each.pid]
        of_user = spec.kind == "user-removed"
        user = spec.principal or cluster.application
        return {
            "root": str(cluster.root),
            "security": cluster.security,
            "user": user,
            "acls": [] if of_user else _acls(_Cluster.of(cluster), user),
            "before": closed_cluster.look(running, cluster.brokers),
        }

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        """Ask the cluster to forget it, and wait until its brokers have."""
        cluster = _Cluster.of_fault(fault)
        user, acls = fault.undo["user"], fault.undo["acls"]
        if fault.kind == "user-removed":
            cluster.ask(lambda one: security_requests.remove_user(one, user))
            cluster.wait_user(user, is_there=False)
        else:
            cluster.ask(lambda one: security_requests.delete_acls(one, acls))
            cluster.wait_acls(user, 0)

    def verify(self, fault: Fault) -> str:
        """Log in as the user, or look at the rights again."""
        cluster = _Cluster.of_fault(fault)
        if fault.kind == "acl-removed":
            found = _acls(cluster, fault.undo["user"])
            return f"{found[0]['principal']} still has rights" if found else ""
        try:
            cluster.ask(_nothing, user=fault.undo["user"])
        except ConnectionRefusedError:
            return ""
        return f"{fault.undo['user']} can log in"

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Give it back."""
        cluster = _Cluster.of_fault(fault)
        user, acls = fault.undo["user"], fault.undo["acls"]
        if fault.kind == "user-removed":
            password = cluster.closed.passwords()[user]
            cluster.ask(lambda one: security_requests.add_user(one, user, password))
            cluster.wait_user(user, is_there=True)
            return Healing(note=f"{user} can log in again")
        cluster.ask(lambda one: security_requests.create_acls(one, acls))
        cluster.wait_acls(user, len(acls))
        return Healing(note=f"{len(acls)} access control entries are back")

    def broken(self, fault: Fault) -> Broken:
        if fault.kind == "acl-removed":
            clients = closed_cluster.became(fault.undo["before"])
            return Broken(what="requests", count=clients.requests_refused or 0, clients=clients)
        # The proof was a login that failed.
        own = 1 if fault.injected_ns else 0
        clients = closed_cluster.became(fault.undo["before"], own_logins=own)
        count = clients.closed + (clients.logins_failed or 0)
        return Broken(what="logins", count=count, clients=clients)


class _Cluster:
    """Asks the brokers of a closed cluster."""

    def __init__(self, closed: ClosedCluster, addresses: Sequence[tuple[str, int]]) -> None:
        self.closed = closed
        self._addresses = addresses

    @classmethod
    def of(cls, closed: ClosedCluster) -> _Cluster:
        return cls(closed, [(each.host, each.port) for each in closed.brokers if each.pid])

    @classmethod
    def of_fault(cls, fault: Fault) -> _Cluster:
        closed = ClosedCluster(
            security=fault.undo["security"], root=Path(fault.undo["root"]), brokers=()
        )
        return cls(closed, [(host, port) for host, port, _ in fault.undo["before"]["brokers"]])

    def ask(self, question: Question, user: str = ADMIN) -> Any:
        """Return the answer of the first broker that is there.

        Raises:
            FaultError: none is there, or it refuses.
            PeerRefusedError: the user may not log in.
        """
        from jbodlab.peers.client import PeerRefusedError

        problem: Exception | None = None
        for address in self._addresses:
            try:
                return asyncio.run(_answer(address, question, self._security(user)))
            except PeerRefusedError:
                raise
            except (OSError, TimeoutError) as error:
                problem = error
        raise FaultError(f"no broker answers: {problem}")

    def wait_user(self, user: str, *, is_there: bool) -> None:
        """Wait until every broker knows that a user can log in, or cannot; raises as `_wait`."""
        self._wait(
            f"the credential of {user}",
            lambda one: security_requests.has_credential(one, user),
            lambda found: found == is_there,
        )

    def wait_acls(self, principal: str, count: int) -> None:
        """Wait until every broker knows at least so many entries, or none; raises as `_wait`."""
        self._wait(
            f"the rights of {principal}",
            lambda one: security_requests.acls(one, principal),
            lambda found: len(found) >= count if count else not found,
        )

    def _wait(self, what: str, question: Question, wanted: Callable[[Any], bool]) -> None:
        """Wait until every broker that is there gives an answer.

        Raises:
            FaultError: one of them does not within the time.
        """
        end = time.monotonic() + APPLIED_S
        for address in self._addresses:
            try:
                while not wanted(asyncio.run(_answer(address, question, self._security(ADMIN)))):
                    if time.monotonic() > end:
                        raise FaultError(f"{what}: {address[0]}:{address[1]} has not heard of it")
                    time.sleep(LOOK_S)
            except (OSError, TimeoutError):
                # One that does not answer serves nobody either.
                continue

    def _security(self, user: str) -> ClientSecurity | None:
        from jbodlab.cli.command_line import read_properties
        from jbodlab.peers.client_properties import client_properties
        from jbodlab.security.secret import Secret

        found = client_properties(read_properties(self.closed.folder / f"{ADMIN}.properties"))
        if user != ADMIN:
            found = replace(found, user=user, password=Secret(self.closed.passwords()[user]))
        return found.security


async def _answer(
    address: tuple[str, int], question: Question, security: ClientSecurity | None
) -> Any:
    from jbodlab.peers.client import KafkaConnection

    connection = await KafkaConnection.open(
        *address, client_id=CLIENT_ID, timeout_s=ASK_S, security=security
    )
    try:
        return await question(connection)
    finally:
        connection.close()


async def _nothing(_: KafkaConnection) -> None:
    """Ask for nothing: connecting was the question."""


def _no_user(cluster: ClosedCluster, user: str) -> str:
    """Return why a user cannot be removed; empty if they can."""
    if cluster.security != SASL_SSL:
        return (
            f"users log in on a cluster of `--security {SASL_SSL}`, this one is {cluster.security}"
        )
    if user == ADMIN:
        return f"{ADMIN} is whom the lab itself needs to log in"
    users = cluster.passwords()
    known = ", ".join(each for each in users if each != ADMIN)
    return "" if user in users else f"unknown user {user!r} (users: {known})"


def _acls(cluster: _Cluster, principal: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.ask(lambda one: security_requests.acls(one, principal))
    return found
