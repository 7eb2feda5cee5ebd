"""Every method of Apache Kafka's Java Admin on this cluster, where Maven can fetch it."""

from __future__ import annotations

import pytest

from tests.cluster.scenes import Stage
from tests.kafka.tools import KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

DONE, TRUE = "done", "true"
NO_AUTHORIZER = "SecurityDisabledException: No Authorizer is configured on the broker"


def unserved(api: str) -> str:
    return f"UnsupportedVersionException: The node does not support {api}"


WORKS = {
    **dict.fromkeys(
        (
            *("create", "createPartitions", "alterReplicaLogDirs", "deleteTopics", "close"),
            *("alterPartitionReassignments", "incrementalAlterConfigs", "updateFeatures"),
            *(
                "alterClientQuotas",
                "alterUserScramCredentials",
                "alterConsumerGroupOffsets",
                "deleteConsumerGroupOffsets",
            ),
            *("deleteConsumerGroups", "alterStreamsGroupOffsets", "deleteStreamsGroupOffsets"),
            *("registerMetricForSubscription", "unregisterMetricFromSubscription"),
            *("abortTransaction", "fenceProducers", "forceTerminateTransaction"),
        ),
        DONE,
    ),
    **dict.fromkeys(
        (
            *("listTopics", "describeTopics", "describeReplicaLogDirs", "describeClientQuotas"),
            *("listPartitionReassignments", "listConfigResources", "metrics"),
            "listTransactions",
        ),
        TRUE,
    ),
    "createTopics": "3",
    "describeCluster": "3",
    "describeClassicGroups": "Empty",
    "describeConfigs": "1000000",
    "describeConsumerGroups": "Empty",
    "describeFeatures": (
        "[eligible.leader.replicas.version, group.version, metadata.version, transaction.version]"
    ),
    "describeLogDirs": "3",
    "describeMetadataQuorum": "1",
    "describeProducers": "0",
    "describeTransactions": "Empty",
    "describeUserScramCredentials": "1",
    "deleteRecords": "0",
    "listClientMetricsResources": "0",
    "listConsumerGroupOffsets": "0",
    "listConsumerGroups": "1",
    "listGroups": "1",
    "listOffsets": "0",
    # Requests of its client that every kind of group shares.
    "listStreamsGroupOffsets": "1",
}
"""Method -> what it returns, as `AdminCalls.java` asks for it."""

REFUSED_AS_BY_KAFKA = {
    "clientInstanceId": (
        "IllegalStateException: Telemetry is not enabled. "
        "Set config `enable.metrics.push` to `true`."
    ),
    "electLeaders": ("ElectionNotNeededException: Leader election not needed for topic partition."),
    "removeMembersFromConsumerGroup": (
        "UnknownMemberIdException: The coordinator is not aware of this member."
    ),
    "unregisterBroker": (
        "BrokerIdNotRegisteredException: Broker ID 7777 is not currently registered"
    ),
    **dict.fromkeys(("createAcls", "describeAcls", "deleteAcls"), NO_AUTHORIZER),
    **dict.fromkeys(
        ("addRaftVoter", "removeRaftVoter"),
        "UnsupportedVersionException: this controller is the only one, as it has no listener for "
        "others; controller.listener.names must name two",
    ),
}

UNSERVED = {
    "alterShareGroupOffsets": unserved("ALTER_SHARE_GROUP_OFFSETS"),
    "createDelegationToken": unserved("CREATE_DELEGATION_TOKEN"),
    "deleteShareGroupOffsets": unserved("DELETE_SHARE_GROUP_OFFSETS"),
    "deleteShareGroups": "GroupIdNotFoundException: The group id does not exist.",
    "deleteStreamsGroups": "GroupIdNotFoundException: The group id does not exist.",
    "describeDelegationToken": unserved("DESCRIBE_DELEGATION_TOKEN"),
    "describeShareGroups": unserved("SHARE_GROUP_DESCRIBE"),
    "describeStreamsGroups": unserved("STREAMS_GROUP_DESCRIBE"),
    "expireDelegationToken": unserved("EXPIRE_DELEGATION_TOKEN"),
    "listShareGroupOffsets": unserved("DESCRIBE_SHARE_GROUP_OFFSETS"),
    "renewDelegationToken": unserved("RENEW_DELEGATION_TOKEN"),
}
"""Of `docs/differences-from-kafka.md`, "Unsupported features, and what a client sees"."""


def test_every_method_of_the_java_admin_works_or_says_why_not(
    stage: Stage, kafka_tools: KafkaTools
) -> None:
    with stage.scene() as scene:
        done = kafka_tools.run_alone("AdminCalls", scene.cluster.bootstrap, "admin-calls")
    assert done.code == 0, done.err
    found = dict(line.split("\t", 1) for line in done.lines)
    assert found == WORKS | REFUSED_AS_BY_KAFKA | UNSERVED
