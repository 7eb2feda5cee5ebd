"""Rights of clients by the metadata of now; all rights where there is no authorizer.

One line of the log tells a denial, and not again within a minute: clients poll.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.records.security_records import AccessControlEntryRecord
from jbodlab.runtime.metrics import Metric
from jbodlab.security.acl import (
    CLUSTER_NAME,
    AclOperation,
    ResourceType,
    entry_of,
)
from jbodlab.security.authorizer import Authorizer, AuthorizerSettings
from jbodlab.server.authorized_operations import EVERY, NOT_ASKED_FOR, bits
from jbodlab.server.resources import Resource
from jbodlab.server.session import Session
from jbodlab.server.told_lately import ToldLately
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId

logger = logging.getLogger(__name__)

_ERRORS = {
    ResourceType.TOPIC: (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic"),
    ResourceType.GROUP: (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group"),
    ResourceType.CLUSTER: (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster"),
    ResourceType.TRANSACTIONAL_ID: (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional id",
    ),
}


class DeniedError(KafkaError):
    """A client has no right to a resource; the text names none."""

    def __init__(self, kind: ResourceType) -> None:
        code, word = _ERRORS[kind]
        super().__init__(code, f"{word} authorization failed.")


class Client(NamedTuple):
    """For whom a right is looked up.

    Attributes:
        principal: As `User:alice`.
        host: The address that it connects from.
    """

    principal: str
    host: str


def client_of(session: Session) -> Client:
    """Return the client of a connection."""
    return Client(session.principal, session.peer.rpartition(":")[0].strip("[]"))


class Rights(Protocol):
    """Answers what a client may do."""

    is_enforced: bool
    """False where everybody may do everything."""

    def allows(self, client: Client, resource: Resource, *, is_asked_for: bool = True) -> bool:
        """Return whether a client may do something; a topic without a name does not exist.

        Args:
            client: The client.
            resource: The resource and the operation on it.
            is_asked_for: Whether a denial is an answer, and not a row less in a list.
        """

    def operations(self, client: Client, kind: ResourceType, name: str) -> int:
        """Return what a client may do to a resource, as bits; see `authorized_operations`."""

    def is_topic(self, name: str | UUID) -> bool:
        """Return whether there is a topic of this name or id."""


class AllRights:
    """Everybody may do everything: there is no authorizer."""

    is_enforced = False

    def allows(self, client: Client, resource: Resource, *, is_asked_for: bool = True) -> bool:
        """Return True."""
        return True

    def operations(self, client: Client, kind: ResourceType, name: str) -> int:
        """Return all that can be done to such a resource."""
        return bits(*EVERY[kind])

    def is_topic(self, name: str | UUID) -> bool:
        """Return True, as nobody has to know."""
        return True


class EnforcedRights:
    """The rights of an image, which is another one each time that it is asked for.

    Args:
        image: Returns the image of now.
        settings: Of this node.
        monotonic_s: Clock for the lines of the log.
    """

    is_enforced = True

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        settings: AuthorizerSettings,
        monotonic_s: Callable[[], float],
    ) -> None:
        self._image = image
        self._settings = settings
        self._monotonic_s = monotonic_s
        self._acls: Mapping[UUID, AccessControlEntryRecord] = {}
        self._authorizer = Authorizer((), settings)
        self._told = ToldLately()
        self.decisions = {"allowed": 0, "denied": 0}
        """How many questions of clients were answered so."""

    def allows(self, client: Client, resource: Resource, *, is_asked_for: bool = True) -> bool:
        """Return whether a client may do something; see `Rights`."""
        name = self._name(resource.name)
        if name is None:
            return True
        kind, _, operation = resource
        authorizer = self._now()
        is_allowed = authorizer.allows(*client, operation, kind, name)
        if not is_allowed and operation is AclOperation.IDEMPOTENT_WRITE:
            # A client that may write at all may do it so that nothing is written twice.
            is_allowed = authorizer.allows_on_any(*client, AclOperation.WRITE, ResourceType.TOPIC)
        if is_asked_for:
            self.decisions["allowed" if is_allowed else "denied"] += 1
            if not is_allowed:
                self._tell(client, resource)
        return is_allowed

    def operations(self, client: Client, kind: ResourceType, name: str) -> int:
        """Return what a client may do to a resource, as bits."""
        return self._now().operations(*client, EVERY[kind], kind, name)

    def is_topic(self, name: str | UUID) -> bool:
        """Return whether there is a topic of this name or id."""
        found = self._name(name)
        return found is not None and found in self._image().topics.by_name

    def _name(self, name: str | UUID) -> str | None:
        if isinstance(name, str):
            return name
        topic = self._image().topics.by_id.get(TopicId(name))
        return None if topic is None else topic.name

    def _now(self) -> Authorizer:
        acls = self._image().security.acls
        if acls is not self._acls:
            self._acls = acls
            self._authorizer = Authorizer(map(entry_of, acls.values()), self._settings)
        return self._authorizer

    def _tell(self, client: Client, resource: Resource) -> None:
        if not self._told.tell((client.principal, resource), self._monotonic_s()):
            return
        logger.info(
            "denied %s from %s to %s %s %s",
            client.principal,
            client.host,
            resource.operation.name,
            resource.kind.name,
            resource.name,
        )


def cluster(operation: AclOperation) -> Resource:
    """Return the cluster as a resource."""
    return Resource(ResourceType.CLUSTER, CLUSTER_NAME, operation)


def operations_on(
    rights: Rights, session: Session, kind: ResourceType, *, is_asked: bool
) -> Callable[[str], int]:
    """Return what tells the operations on a resource of a kind to a client, if it asked."""
    client = client_of(session)
    return lambda name: rights.operations(client, kind, name) if is_asked else NOT_ASKED_FOR


def operations_on_cluster(rights: Rights, session: Session, *, is_asked: bool) -> int:
    """Return the operations on the cluster; none for who may not describe it."""
    if is_asked and not rights.allows(
        client_of(session), cluster(AclOperation.DESCRIBE), is_asked_for=False
    ):
        return 0
    return operations_on(rights, session, ResourceType.CLUSTER, is_asked=is_asked)(CLUSTER_NAME)


def rights_metrics(rights: Rights) -> Iterator[Metric]:
    """Yield how often clients were allowed, and denied, what they asked for."""
    decisions = rights.decisions if isinstance(rights, EnforcedRights) else {}
    yield Metric(
        "jbodlab_authorizations_total",
        [("", {"result": result}, count) for result, count in decisions.items()],
    )
