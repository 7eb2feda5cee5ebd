"""An administrator's requests that take away the credential of a user, or all rights of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fault_injection import closed_cluster
from fault_injection.closed_cluster import ADMIN, SASL_SSL, ClosedCluster
from fault_injection.journal import Fault
from fault_injection.kinds import FaultSpec
from fault_injection.mechanism import Broken, Healing, RecordUndo, Start, Target
from jbodlab.security.acl import AccessControlEntry
from jbodlab.vocabulary.errors import JbodlabError

if TYPE_CHECKING:
    from fault_injection.administration import Administration


class Administrator:
    """The mechanism `administrator`."""

    def refusal(self, spec: FaultSpec, target: Target) -> str:
        cluster = target.cluster
        assert cluster is not None
        if not any(each.pid for each in cluster.brokers):
            return "no broker runs"
        user = spec.principal or cluster.application
        if spec.kind == "user-removed":
            return _no_user(cluster, user)
        try:
            found = _administration(cluster).acls(user)
        except (JbodlabError, OSError) as error:
            return f"the rights of {user} are not known: {error}"
        return "" if found else f"{user} has no access control entries to lose"

    def prepare(self, spec: FaultSpec, target: Target, fault_id: int) -> dict[str, Any]:
        """Return what is taken away, and who is connected to the brokers."""
        cluster = target.cluster
        assert cluster is not None
        running = [each for each in cluster.brokers if each.pid]
        user = spec.principal or cluster.application
        of_user = spec.kind == "user-removed"
        return {
            "root": str(cluster.root),
            "security": cluster.security,
            "user": user,
            "acls": [] if of_user else [list(one) for one in _administration(cluster).acls(user)],
            "before": closed_cluster.look(running, cluster.brokers),
        }

    def make(self, fault: Fault, record: RecordUndo, start: Start) -> None:
        """Ask the cluster to forget it, and wait until its brokers have."""
        user = fault.undo["user"]
        if fault.kind == "user-removed":
            _administration_of(fault).remove_user(user)
        else:
            _administration_of(fault).delete_acls(user, _entries(fault))

    def verify(self, fault: Fault) -> str:
        """Log in as the user, or look at the rights again."""
        user = fault.undo["user"]
        if fault.kind == "user-removed":
            return f"{user} can log in" if _administration_of(fault).can_log_in(user) else ""
        return f"{user} still has rights" if _administration_of(fault).acls(user) else ""

    def undo(self, fault: Fault, start: Start) -> Healing:
        """Give it back."""
        user, entries = fault.undo["user"], _entries(fault)
        if fault.kind == "user-removed":
            _administration_of(fault).add_user(user)
            return Healing(note=f"{user} can log in again")
        _administration_of(fault).create_acls(user, entries)
        return Healing(note=f"{len(entries)} access control entries of {user} are back")

    def broken(self, fault: Fault) -> Broken:
        if fault.kind == "acl-removed":
            clients = closed_cluster.became(fault.undo["before"])
            return Broken(what="requests", count=clients.requests_refused or 0, clients=clients)
        # The proof was a login that failed.
        own = 1 if fault.injected_ns else 0
        clients = closed_cluster.became(fault.undo["before"], own_logins=own)
        count = clients.closed + (clients.logins_failed or 0)
        return Broken(what="logins", count=count, clients=clients)


def _administration(closed: ClosedCluster) -> Administration:
    # The module that speaks Kafka's protocol is imported only here, as most faults need none of it.
    from fault_injection.administration import Administration

    return Administration(closed, [(one.host, one.port) for one in closed.brokers if one.pid])


def _administration_of(fault: Fault) -> Administration:
    from fault_injection.administration import Administration

    root, security = Path(fault.undo["root"]), fault.undo["security"]
    addresses = [(host, port) for host, port, _ in fault.undo["before"]["brokers"]]
    return Administration(ClosedCluster(security=security, root=root, brokers=()), addresses)


def _entries(fault: Fault) -> list[AccessControlEntry]:
    return [AccessControlEntry(*values) for values in fault.undo["acls"]]


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
