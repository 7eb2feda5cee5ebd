"""Rights on a closed cluster: its users, and the entries that it begins with.

    admin       a super user, as the servers are: may do everything
    alice       the user of applications: may use every topic, group and transactional id
    mallory     may do nothing

Where clients need no certificate an application is `User:ANONYMOUS` in place of alice.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jbodlab.security.acl import (
    USER,
    WILDCARD,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

if TYPE_CHECKING:
    from jbodlab.metadata.records.security_records import AccessControlEntryRecord

ADMIN, ALICE, MALLORY = USERS = ("admin", "alice", "mallory")

OF_APPLICATIONS = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE,),
}
"""An operation that implies DESCRIBE is not named twice."""


def settings(servers: Iterable[str]) -> dict[str, str]:
    """Return what the property file of each node says of rights.

    Args:
        servers: The names of brokers and controllers, which do everything for others.
    """
    from jbodlab.config import authorizer

    users = dict.fromkeys((ADMIN, *servers))
    return {
        authorizer.CLASS: authorizer.STANDARD,
        authorizer.SUPER_USERS: ";".join(f"{USER}:{name}" for name in users),
    }


def entries(*, applications_are_known: bool) -> list[AccessControlEntryRecord]:
    """Return the entries that a cluster has from its first start on, one of each operation.

    Args:
        applications_are_known: Whether they show who they are.
    """
    from jbodlab.metadata.records.security_records import AccessControlEntryRecord
    from jbodlab.security.acl import ANONYMOUS

    name = ALICE if applications_are_known else ANONYMOUS
    return [
        AccessControlEntryRecord(
            id=uuid.uuid4(),
            resource_type=kind,
            resource_name=WILDCARD,
            pattern_type=PatternType.LITERAL,
            principal=f"{USER}:{name}",
            host=WILDCARD,
            operation=operation,
            permission_type=Permission.ALLOW,
        )
        for kind, operations in OF_APPLICATIONS.items()
        for operation in operations
    ]
