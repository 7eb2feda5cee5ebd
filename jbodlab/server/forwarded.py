"""Resources that clients touch with requests that brokers pass on to the controller.

A broker looks before it passes a request on, and may refuse it. The changes of a request are
decided by the controller, by its own newest state.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.security.acl import AclOperation
from jbodlab.server.resources import Resources, all_of, on_cluster, on_configs, on_topics

_ALTER_CLUSTER = on_cluster(AclOperation.ALTER)
_DESCRIBE_CLUSTER = on_cluster(AclOperation.DESCRIBE)

FORWARDED: Mapping[str, Resources] = {
    "AddRaftVoter": _ALTER_CLUSTER,
    "AlterClientQuotas": on_cluster(AclOperation.ALTER_CONFIGS),
    "AlterConfigs": on_configs(AclOperation.ALTER_CONFIGS),
    "AlterPartitionReassignments": _ALTER_CLUSTER,
    "AlterUserScramCredentials": _ALTER_CLUSTER,
    "CreateAcls": _ALTER_CLUSTER,
    "CreatePartitions": on_topics(AclOperation.ALTER),
    "CreateTopics": on_topics(AclOperation.CREATE, instead=AclOperation.CREATE),
    "DeleteAcls": _ALTER_CLUSTER,
    # Versions of clients before 6 have an array of names.
    "DeleteTopics": all_of(
        *(
            on_topics(AclOperation.DELETE, field, instead=AclOperation.DELETE, tells_absent=True)
            for field in ("topics", "topic_names")
        )
    ),
    "DescribeQuorum": _DESCRIBE_CLUSTER,
    "ElectLeaders": _ALTER_CLUSTER,
    "IncrementalAlterConfigs": on_configs(AclOperation.ALTER_CONFIGS),
    "ListPartitionReassignments": _DESCRIBE_CLUSTER,
    "RemoveRaftVoter": _ALTER_CLUSTER,
    "ResignLeadership": _ALTER_CLUSTER,
    "UnregisterBroker": _ALTER_CLUSTER,
    "UpdateFeatures": _ALTER_CLUSTER,
}
"""By the method of the controller."""
