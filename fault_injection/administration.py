"""A closed cluster as its administrator asks it: users and rights taken away, and given back.

Brokers apply what the controller has decided a moment later; each change is waited for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from fault_injection.closed_cluster import ADMIN, ClosedCluster
from fault_injection.errors import FaultError
from jbodlab.cli.command_line import read_properties
from jbodlab.kafka_admin import acls, client, users
from jbodlab.kafka_admin.client import AdminClient
from jbodlab.kafka_admin.errors import AdminError, RequestError
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.peers.client import KafkaConnection, PeerRefusedError
from jbodlab.peers.client_properties import client_properties
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import Address
from jbodlab.security.acl import ANY, AccessControlEntry, AclFilter
from jbodlab.security.scram import MECHANISMS, salted_password
from jbodlab.security.secret import Secret
from jbodlab.vocabulary.errors import AuthenticationError

CLIENT_ID = "jbodlab-faults"
ASK_S = 5.0
APPLIED_S = 10.0
"""Longest wait for the brokers to know what the controller has decided."""
LOOK_S = 0.05
MECHANISM = MECHANISMS["SCRAM-SHA-512"]
ITERATIONS = 4096
SALT_BYTES = 24

T = TypeVar("T")
Question = Callable[[AdminClient], Awaitable[T]]
Entries = Sequence[AccessControlEntry]


class Administration:
    """Asks the brokers of a cluster.

    Args:
        closed: The cluster.
        addresses: Hosts and ports of its brokers.

    Raises:
        FaultError: from each method: no broker answers, the cluster refuses, or a broker does not
            apply a change in time.
    """

    def __init__(self, closed: ClosedCluster, addresses: Sequence[Address]) -> None:
        self._closed = closed
        self._addresses = addresses

    def remove_user(self, user: str) -> None:
        """Take the credential of a user away."""
        self._ask(lambda one: users.remove_password(one, user, MECHANISM))
        self._wait_user(user, is_there=False)

    def add_user(self, user: str) -> None:
        """Give a user a credential with the password that the cluster was made with."""
        password, salt = self._closed.passwords()[user], os.urandom(SALT_BYTES)
        salted = salted_password(MECHANISM, password, salt, ITERATIONS)
        credential = users.Credential(user, MECHANISM, ITERATIONS)
        self._ask(lambda one: users.set_password(one, credential, salt, salted))
        self._wait_user(user, is_there=True)

    def can_log_in(self, user: str) -> bool:
        """Try whether a user can log in."""
        security = self._security(user)
        problem: Exception | None = None
        for address in self._addresses:
            try:
                asyncio.run(_connect(address, security))
            except (OSError, TimeoutError) as error:
                if isinstance(error, PeerRefusedError) and isinstance(
                    error.__cause__, AuthenticationError
                ):
                    return False
                # One whose certificate has expired is as good as one that is not there.
                problem = error
            else:
                return True
        raise FaultError(f"no broker answers: {problem}")

    def acls(self, principal: str) -> list[AccessControlEntry]:
        """Return the access control entries of a principal, as `User:alice`.

        Of a name alone they are also those of a certificate, `User:CN=alice`.
        """
        return self._ask(lambda one: _acls(one, principal))

    def delete_acls(self, principal: str, entries: Entries) -> None:
        """Delete all entries of a principal."""

        async def delete(one: AdminClient) -> None:
            for entry in entries:
                await acls.delete_acls(one, AclFilter(*entry))

        self._ask(delete)
        self._wait_acls(principal, lambda found: not found)

    def create_acls(self, principal: str, entries: Entries) -> None:
        """Create entries of a principal."""
        self._ask(lambda one: acls.create_acls(one, entries))
        self._wait_acls(principal, lambda found: len(found) >= len(entries))

    def _wait_user(self, user: str, *, is_there: bool) -> None:
        self._wait(
            f"the credential of {user}",
            users.describe_users,
            lambda found: any(one.user == user for one in found) == is_there,
        )

    def _wait_acls(self, principal: str, wanted: Callable[[Entries], bool]) -> None:
        self._wait(f"the rights of {principal}", lambda one: _acls(one, principal), wanted)

    def _ask(self, question: Question[T]) -> T:
        """Return the answer of the first broker that is there."""
        try:
            return asyncio.run(self._answer(self._addresses, question))
        except RequestError as error:
            raise FaultError(f"the cluster refuses: {error}") from error
        except AdminError as error:
            raise FaultError(f"no broker answers: {error}") from error

    def _wait(self, what: str, question: Question[T], wanted: Callable[[T], bool]) -> None:
        """Wait until every broker that is there gives an answer."""
        end = time.monotonic() + APPLIED_S
        for address in self._addresses:
            try:
                while not wanted(asyncio.run(self._answer([address], question))):
                    if time.monotonic() > end:
                        raise FaultError(f"{what}: {address[0]}:{address[1]} has not heard of it")
                    time.sleep(LOOK_S)
            except RequestError as error:
                raise FaultError(f"the cluster refuses: {error}") from error
            except AdminError:
                # One that does not answer serves nobody either.
                continue

    async def _answer(self, addresses: Sequence[Address], question: Question[T]) -> T:
        properties = AdminProperties(
            security=self._security(ADMIN),
            client_id=CLIENT_ID,
            request_timeout_ms=round(ASK_S * 1000),
            patience_s=0,
        )
        async with client.opened(addresses, properties) as connected:
            return await question(connected)

    def _security(self, user: str) -> ClientSecurity | None:
        found = client_properties(read_properties(self._closed.folder / f"{ADMIN}.properties"))
        if user != ADMIN:
            found = replace(found, user=user, password=Secret(self._closed.passwords()[user]))
        return found.security


async def _acls(one: AdminClient, principal: str) -> list[AccessControlEntry]:
    names = [principal] if ":" in principal else [f"User:{principal}", f"User:CN={principal}"]
    wanted = [AclFilter(ANY, None, ANY, name, None, ANY, ANY) for name in names]
    return [entry for each in wanted for entry in await acls.describe_acls(one, each)]


async def _connect(address: Address, security: ClientSecurity | None) -> None:
    connection = await KafkaConnection.open(
        *address, client_id=CLIENT_ID, timeout_s=ASK_S, security=security
    )
    connection.close()
