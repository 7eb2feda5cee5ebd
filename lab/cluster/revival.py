"""Repaired directories come back: into a running broker of ours, with one restart of Kafka's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.cluster import log_dir_states
from lab.cluster.cluster import Cluster
from lab.cluster.node import Broker
from lab.errors import LabError
from lab.machine.waiting import NotInTimeError


def revive(cluster: Cluster, broker: Broker, paths: Sequence[str]) -> Mapping[str, str]:
    """Bring directories of a broker back online.

    Returns:
        Why that failed, by directory; those that are back are left out.
    """
    if cluster.engine.revives:
        answers = {path: log_dir_states.revive(broker, path) for path in paths}
        return {path: refusal for path, refusal in answers.items() if refusal}
    try:
        broker.stop()
        broker.start()
        cluster.wait_served(broker)
    except (LabError, NotInTimeError) as error:
        return dict.fromkeys(paths, str(error).splitlines()[0])
    entries = log_dir_states.states(broker, are_ours=False) or ()
    return {entry.path: entry.reason for entry in entries if entry.path in paths and entry.reason}
