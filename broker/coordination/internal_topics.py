"""Creates the topics in which coordinators keep their state.

Kafka requests the configured replication factor for any cluster, and a cluster with fewer brokers
never gets the topic. Here the factor is at most the number of registered brokers, including fenced
ones. It does not depend on live brokers: otherwise the topic would keep a factor of 1 for ever if
one broker was up when the first client came. An acknowledged commit is on two disks if the cluster
has two.

Source: `kafka.server.DefaultAutoTopicCreationManager`.
"""

from __future__ import annotations

import logging

from broker.groups.settings import GroupSettings
from jbodlab.controller_api.requests import NewTopic
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC

MIN_ISR_MAX = 2

logger = logging.getLogger(__name__)


def internal_topic(name: str, settings: GroupSettings, registered_brokers: int) -> NewTopic | None:
    """Return how a topic of the brokers' own is to be created; None for one that is not used.

    Args:
        name: One of `INTERNAL_TOPICS`.
        settings: Of groups.
        registered_brokers: How many there are, fenced ones included; at least this one.
    """
    if name != GROUP_METADATA_TOPIC:
        return None
    wanted = settings.offsets_topic_replication_factor
    factor = max(1, min(wanted, registered_brokers))
    if factor < wanted:
        logger.warning(
            "creating %s with replication factor %d instead of %d: no more brokers are registered",
            name,
            factor,
            wanted,
            extra={"topic": name},
        )
    return NewTopic(
        name=name,
        num_partitions=settings.offsets_topic_num_partitions,
        replication_factor=factor,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("min.insync.replicas", str(min(MIN_ISR_MAX, factor))),
            ("segment.bytes", str(settings.offsets_topic_segment_bytes)),
        ),
    )
