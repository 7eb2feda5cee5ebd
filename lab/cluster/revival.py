"""A repaired directory comes back: into a running broker of ours, with a restart of Kafka's."""

from __future__ import annotations

from lab.cluster import log_dir_states
from lab.cluster.cluster import Cluster
from lab.cluster.node import Broker
from lab.cluster.waiting import NotInTimeError
from lab.errors import LabError


def revive(cluster: Cluster, broker: Broker, path: str) -> str:
    """Bring a directory back online; returns why that failed, empty if it did not."""
    if cluster.engine.revives:
        return log_dir_states.revive(broker, path)
    try:
        broker.stop()
        broker.start()
        cluster.wait_served(broker)
    except (LabError, NotInTimeError) as error:
        return str(error).splitlines()[0]
    entries = log_dir_states.states(broker, are_ours=False) or ()
    still = [entry.cause or "" for entry in entries if entry.path == path and entry.cause]
    return still[0] if still else ""
