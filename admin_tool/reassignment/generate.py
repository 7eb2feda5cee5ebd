"""jbod-reassign-partitions --generate."""

from __future__ import annotations

import random

from admin_tool.errors import AdminError
from admin_tool.options import Parsed, broker_ids
from admin_tool.reassignment.assignment import current_log_dirs, described
from admin_tool.reassignment.json_form import duplicates, read_topics, render
from admin_tool.reassignment.proposal import propose
from admin_tool.requests.connection import connected
from jbodlab.ids import TopicPartition


def run(options: Parsed) -> int:
    """Print the current and a proposed assignment; returns the exit code."""
    names = read_topics(options.required("topics-to-move-json-file"))
    allowed = broker_ids(options.required("broker-list"))
    twice = duplicates(allowed)
    if twice:
        listed = ", ".join(map(str, twice))
        raise AdminError(f"Broker list contains duplicate entries: [{listed}]")
    rack_aware = not options.has("disable-rack-aware")
    with connected(options) as connection:
        topics = described(connection, names)
        known = {broker.id: broker.rack if rack_aware else None for broker in connection.brokers()}
        unknown = sorted(set(allowed) - set(known))
        if unknown:
            raise AdminError(f"Unknown broker id {unknown[0]}")
        brokers = {broker: known[broker] for broker in known if broker in allowed}
        current = {
            TopicPartition(topic.name, partition.index): partition.replicas
            for topic in topics.values()
            for partition in topic.partitions
        }
        log_dirs = current_log_dirs(connection, current)
    proposed = {}
    for topic in topics.values():
        assignment = propose(
            [partition.index for partition in topic.partitions],
            len(topic.partitions[0].replicas),
            brokers,
            start=random.randrange(1 << 16),
            shift=random.randrange(1 << 16),
        )
        proposed.update(
            {TopicPartition(topic.name, index): chosen for index, chosen in assignment.items()}
        )
    print("Current partition replica assignment")
    print(render(current, log_dirs))
    print()
    print("Proposed partition reassignment configuration")
    print(render(proposed, {}))
    return 0
