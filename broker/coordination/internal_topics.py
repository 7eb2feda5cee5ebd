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

from jbodlab.controller_api.requests import NewTopic

MIN_ISR_MAX = 2

logger = logging.getLogger(__name__)


def internal_topic(
    name: str,
    *,
    num_partitions: int,
    replication_factor: int,
    segment_bytes: int,
    registered_brokers: int,
    min_isr: int = MIN_ISR_MAX,
    compression: str = "producer",
    extra: tuple[tuple[str, str], ...] = (),
) -> NewTopic:
    """Return how the topic of a state machine is to be created.

    Args:
        name: One of `INTERNAL_TOPICS`.
        num_partitions: As configured for this topic.
        replication_factor: As configured; the topic gets fewer replicas than that if there are
            fewer brokers.
        segment_bytes: As configured.
        registered_brokers: How many there are, fenced ones included; at least this one.
        min_isr: As configured; at most as many as there are replicas.
        compression: The topic's compression.type.
        extra: More configs of the topic.
    """
    factor = max(1, min(replication_factor, registered_brokers))
    if factor < replication_factor:
        logger.warning(
            "creating %s with replication factor %d instead of %d: no more brokers are registered",
            name,
            factor,
            replication_factor,
            extra={"topic": name},
        )
    return NewTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=factor,
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", compression),
            ("min.insync.replicas", str(min(min_isr, factor))),
            ("segment.bytes", str(segment_bytes)),
            *extra,
        ),
    )
