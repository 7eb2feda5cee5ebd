"""A closed cluster as its administrator asks it: users and rights taken away, and given back.

Brokers apply what the controller has decided a moment later; each change is waited for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fault_injection import security_requests
from fault_injection.closed_cluster import ADMIN, ClosedCluster
from fault_injection.errors import FaultError
from jbodlab.cli.command_line import read_properties
from jbodlab.peers.client import KafkaConnection, PeerRefusedError
from jbodlab.peers.client_properties import client_properties
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.security.secret import Secret
from jbodlab.vocabulary.errors import AuthenticationError

CLIENT_ID = "jbodlab-faults"
ASK_S = 5.0
APPLIED_S = 10.0
"""Longest wait for the brokers to know what the controller has decided."""
LOOK_S = 0.05

Question = Callable[[KafkaConnection], Awaitable[Any]]
"""A question over a connection."""
Entries = Sequence[Mapping[str, Any]]
"""Access control entries, as `security_requests` has them."""


class Administration:
    """Asks the brokers of a cluster.

    Args:
        closed: The cluster.
        addresses: Hosts and ports of its brokers.

    Raises:
        FaultError: from each method: no broker answers, the cluster refuses, or a broker does not
            apply a change in time.
    """

    def __init__(self, closed: ClosedCluster, addresses: Sequence[tuple[str, int]]) -> None:
        self._closed = closed
        self._addresses = addresses

    def remove_user(self, user: str) -> None:
        """Take the credential of a user away."""
        self._ask(lambda one: security_requests.remove_user(one, user))
        self._wait_user(user, is_there=False)

    def add_user(self, user: str) -> None:
        """Give a user a credential with the password that the cluster was made with."""
        password = self._closed.passwords()[user]
        self._ask(lambda one: security_requests.add_user(one, user, password))
        self._wait_user(user, is_there=True)

    def can_log_in(self, user: str) -> bool:
        """Try whether a user can log in."""
        try:
            self._ask(_nothing, user)
        except AuthenticationError:
            return False
        return True

    def acls(self, principal: str) -> list[dict[str, Any]]:
        """Return the access control entries of a principal."""
        found: list[dict[str, Any]] = self._ask(lambda one: security_requests.acls(one, principal))
        return found

    def delete_acls(self, principal: str, entries: Entries) -> None:
        """Delete all entries of a principal."""
        self._ask(lambda one: security_requests.delete_acls(one, entries))
        self._wait_acls(principal, lambda found: not found)

    def create_acls(self, principal: str, entries: Entries) -> None:
        """Create entries of a principal."""
        self._ask(lambda one: security_requests.create_acls(one, entries))
        self._wait_acls(principal, lambda found: len(found) >= len(entries))

    def _wait_user(self, user: str, *, is_there: bool) -> None:
        self._wait(
            f"the credential of {user}",
            lambda one: security_requests.has_credential(one, user),
            lambda found: found == is_there,
        )

    def _wait_acls(self, principal: str, wanted: Callable[[Any], bool]) -> None:
        self._wait(
            f"the rights of {principal}", lambda one: security_requests.acls(one, principal), wanted
        )

    def _ask(self, question: Question, user: str = ADMIN) -> Any:
        """Return the answer of the first broker that is there; raises AuthenticationError besides.

        One whose certificate has expired is as good as one that is not there.
        """
        problem: Exception | None = None
        for address in self._addresses:
            try:
                return asyncio.run(_answer(address, question, self._security(user)))
            except PeerRefusedError as error:
                if isinstance(error.__cause__, AuthenticationError):
                    raise error.__cause__ from error
                problem = error
            except (OSError, TimeoutError) as error:
                problem = error
        raise FaultError(f"no broker answers: {problem}")

    def _wait(self, what: str, question: Question, wanted: Callable[[Any], bool]) -> None:
        """Wait until every broker that is there gives an answer."""
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
        found = client_properties(read_properties(self._closed.folder / f"{ADMIN}.properties"))
        if user != ADMIN:
            found = replace(found, user=user, password=Secret(self._closed.passwords()[user]))
        return found.security


async def _answer(
    address: tuple[str, int], question: Question, security: ClientSecurity | None
) -> Any:
    connection = await KafkaConnection.open(
        *address, client_id=CLIENT_ID, timeout_s=ASK_S, security=security
    )
    try:
        return await question(connection)
    finally:
        connection.close()


async def _nothing(_: KafkaConnection) -> None:
    """Ask for nothing: connecting was the question."""
