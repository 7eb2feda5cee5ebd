"""Operations that a client may do, as a set of bits (KIP-430).

Bit n stands for the operation with the code n of `org.apache.kafka.common.acl.AclOperation`. Which
operations a kind of resource knows is in `org.apache.kafka.security.authorizer.AclEntry`.
"""

from __future__ import annotations

from jbodlab.security.acl import AclOperation, ResourceType

NOT_ASKED_FOR = -(1 << 31)

_EVERYWHERE = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
EVERY = {
    ResourceType.TOPIC: (*_EVERYWHERE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE),
    ResourceType.CLUSTER: (
        *_EVERYWHERE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
}
"""All operations on a kind of resource."""


def bits(*operations: AclOperation) -> int:
    """Return operations as a set of bits."""
    return sum(1 << operation for operation in operations)
