"""What a client may do, as a set of bits: everything, as there is no authorizer (KIP-430).

Bit n stands for the operation with the code n of `org.apache.kafka.common.acl.AclOperation`. Which
operations a kind of resource knows is in `org.apache.kafka.security.authorizer.AclEntry`.
"""

from __future__ import annotations

from jbodlab.server.resources import AclOperation

NOT_ASKED_FOR = -(1 << 31)


def if_asked(is_asked: bool, operations: int) -> int:
    """Return the operations for a client that asked for them."""
    return operations if is_asked else NOT_ASKED_FOR


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_EVERYWHERE = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
ON_TOPIC = _bits(*_EVERYWHERE, AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE)
ON_CLUSTER = _bits(*_EVERYWHERE, AclOperation.CLUSTER_ACTION, AclOperation.IDEMPOTENT_WRITE)
ON_GROUP = _bits(
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
