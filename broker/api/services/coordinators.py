"""Questions of the APIs of groups and transactions to the coordinators of this broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from broker.groups import requests as groups
from broker.replica.partition import Partition
from broker.transactions import requests as transactions
from jbodlab.server.answer import RequestContext
from jbodlab.server.request_values import value_of
from jbodlab.server.session import Session
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError

G = TypeVar("G")
T = TypeVar("T")
R = TypeVar("R", contravariant=True)

Each = list[tuple[tuple[str, ...], Any]]
"""Keys, and the answer for them: what their shard said, or a `KafkaError`."""


class LocalCoordinators(Protocol[R]):
    """The coordinators of one kind on this broker; a key is the id of what they coordinate."""

    def submit(self, key: str, request: R) -> asyncio.Future[Any]:
        """Ask the coordinator of a key; raises KafkaError, also in the future."""

    def replica_of(self, group_id: str) -> Partition:
        """Return the replica that a group is kept in; raises KafkaError."""

    def submit_each(
        self, keys: Iterable[str], request_for: Callable[[tuple[str, ...]], R]
    ) -> asyncio.Future[Each]:
        """Ask the coordinators of many keys, each for its own; errors are in the result."""

    def submit_to_all(self, request: R) -> asyncio.Future[list[Any]]:
        """Ask all coordinators; raises KafkaError while one of them is being loaded."""

    def is_offline(self, partition: int) -> bool:
        """Return whether a coordinator that the metadata has here cannot be."""


GroupCoordinators = LocalCoordinators[groups.Request]
TransactionCoordinators = LocalCoordinators[transactions.Request]


def described(
    group_ids: Iterable[str],
    each: Each,
    entry: Callable[..., G],
    operations: Callable[[str], int],
) -> tuple[G, ...]:
    """Return one description for each group, in the order in which they were asked for.

    Args:
        group_ids: The groups.
        each: Answers of their shards.
        entry: Makes the description of a group that has an error.
        operations: Operations on a group that the client has a right to.
    """
    found: dict[str, G] = {}
    for ids, answer in each:
        if isinstance(answer, KafkaError):
            for group_id in ids:
                found[group_id] = entry(
                    group_id=group_id,
                    error_code=answer.code,
                    error_message=answer.message or None,
                )
        else:
            for group in answer.groups:
                allowed = operations(group.group_id)
                found[group.group_id] = replace(group, authorized_operations=allowed)
    return tuple(found[group_id] for group_id in group_ids)


def check_group_id(group_id: str) -> None:
    """Refuse the empty group id where it means nothing; raises KafkaError."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")


def request_of(kind: type[T], request: Any, context: RequestContext, **given: Any) -> T:
    """Return what the coordinator of a group is asked for a client.

    Args:
        kind: Of `broker.groups.requests`; what it has to know of the client is filled in.
        request: Of the client.
        context: Where it came from.
        given: Fields that do not have their counterparts in the request.
    """
    of_client = {
        "version": context.version,
        "client_id": context.header.client_id or "",
        "client_host": client_host(context.session),
    }
    known = {name: of_client[name] for name in of_client.keys() & kind.__annotations__}
    made: T = value_of(kind, request, {**known, **given})
    return made


def client_host(session: Session) -> str:
    """Return the address of a client as Kafka tells it, with a slash in front."""
    return f"/{session.peer.rpartition(':')[0]}"
