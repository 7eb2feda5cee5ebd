"""Cordoned directories: they get no new replicas.

A broker whose online directories are all cordoned gets no new replicas, neither by placement nor by
an explicit assignment. Its existing replicas stay.

Source: KIP-1066, which permits explicit assignments.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.decide.state import ControllerState
from jbodlab.metadata.image.broker_registration import BrokerRegistration, in_order
from jbodlab.metadata.records.cluster_records import BrokerRegistrationChangeRecord
from jbodlab.metadata.records.metadata_version import CORDONED_DIRECTORIES_LEVEL
from jbodlab.vocabulary.ids import BrokerId, DirectoryId


def takes_new_replicas(registration: BrokerRegistration) -> bool:
    """Return whether a broker has an online directory that is not cordoned.

    One that names no directories at all decides for itself.
    """
    cordoned = registration.cordoned_directories or ()
    return not registration.directories or any(
        directory not in cordoned for directory in registration.directories
    )


def cordoned_problem(brokers: Iterable[BrokerId], state: ControllerState) -> str | None:
    """Return why brokers cannot get new replicas, as the rest of a sentence; None if they can."""
    known = state.image.cluster.brokers
    for broker_id in brokers:
        if broker_id in known and not takes_new_replicas(known[broker_id]):
            return f"broker {broker_id}, but all of its log directories are cordoned."
    return None


def cordoned_change(
    registration: BrokerRegistration,
    reported: tuple[DirectoryId, ...] | None,
    state: ControllerState,
) -> BrokerRegistrationChangeRecord | None:
    """Return the record for what a heartbeat says of cordoned directories; None if nothing is new.

    The first report of a registration is written even if it names none.
    """
    if reported is None or state.metadata_version < CORDONED_DIRECTORIES_LEVEL:
        return None
    if registration.cordoned_directories == in_order(reported):
        return None
    return BrokerRegistrationChangeRecord(
        broker_id=registration.broker_id,
        broker_epoch=registration.epoch,
        cordoned_log_dirs=in_order(reported),
    )


def registered_cordons(
    reported: tuple[DirectoryId, ...] | None,
    log_dirs: tuple[DirectoryId, ...],
    old: BrokerRegistration | None,
    state: ControllerState,
) -> tuple[DirectoryId, ...] | None:
    """Return the cordoned directories of a new registration.

    A process that starts does not know its own yet. Directories cordoned before it stay so until
    its first word, or a restart would open a directory for a while.
    """
    if state.metadata_version < CORDONED_DIRECTORIES_LEVEL:
        return None
    if reported is not None:
        return in_order(reported)
    before = () if old is None else old.cordoned_directories or ()
    return tuple(each for each in before if each in log_dirs) or None
