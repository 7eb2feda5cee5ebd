"""Pictures of clusters made of registrations, as the tables of a replay have them.

Registrations tell which directory a replica was given, and nothing of sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbodlab.kafka_admin.log_dirs import NOT_TOLD, DescribedLogDir, HeldReplica
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.picture.cluster_picture import (
    SERVING,
    BrokerPicture,
    ClusterPicture,
    PartitionPicture,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, TopicPartition

Held = dict[tuple[int, DirectoryId], list[TopicPartition]]


def of_registrations(
    brokers: Iterable[BrokerRegistration],
    partitions: Mapping[TopicPartition, PartitionRegistration],
    *,
    former: Mapping[BrokerId, Iterable[DirectoryId]] | None = None,
    paths: Mapping[str, str] | None = None,
) -> ClusterPicture:
    """Return a picture of brokers and partitions.

    Args:
        brokers: Those that are registered.
        partitions: The partitions.
        former: Directories that brokers had online once, in order.
        paths: Of directories by the texts of their ids, as far as they are known; an id stands for
            a path that is not.
    """
    registered = {one.broker_id: one for one in sorted(brokers, key=lambda one: one.broker_id)}
    held: Held = {}
    for name, state in partitions.items():
        for broker, directory in _placed(state):
            held.setdefault((broker, directory), []).append(name)
    return ClusterPicture(
        brokers=[
            _broker(one, (former or {}).get(one.broker_id, ()), held, paths or {})
            for one in registered.values()
        ],
        listed=frozenset(registered),
        partitions={name: _partition(state, registered) for name, state in partitions.items()},
    )


def serves(registration: BrokerRegistration | None, directory: DirectoryId | None) -> bool:
    """Return whether a broker can use its replica in a directory; None if that is not known."""
    return (
        registration is not None
        and registration.active
        and (directory is None or registration.directory_is_online(directory))
    )


def state_text(registration: BrokerRegistration | None) -> str:
    """Return the state of a broker that a registration says."""
    if registration is None:
        return "unregistered"
    if registration.fenced:
        return "fenced"
    return "in controlled shutdown" if registration.in_controlled_shutdown else SERVING


def _placed(state: PartitionRegistration) -> list[tuple[BrokerId, DirectoryId]]:
    directories = state.directories or (directory_ids.UNASSIGNED,) * len(state.replicas)
    return list(zip(state.replicas, directories, strict=True))


def _broker(
    one: BrokerRegistration,
    former: Iterable[DirectoryId],
    held: Held,
    paths: Mapping[str, str],
) -> BrokerPicture:
    log_dirs = []
    for directory in dict.fromkeys((*one.directories, *former)):
        if directory_ids.is_reserved(directory):
            continue
        text = kafka_uuid.to_text(directory)
        log_dirs.append(
            DescribedLogDir(
                path=paths.get(text, text),
                error_code=0 if directory in one.directories else ErrorCode.KAFKA_STORAGE_ERROR,
                replicas=tuple(map(_held, held.get((one.broker_id, directory), ()))),
                directory_id=text,
                is_cordoned=directory in (one.cordoned_directories or ()),
            )
        )
    return BrokerPicture(
        broker_id=one.broker_id,
        paths={view.path: number for number, view in enumerate(log_dirs, start=1)},
        log_dirs=log_dirs,
        rack=one.rack,
        registration=state_text(one),
    )


def _held(name: TopicPartition) -> HeldReplica:
    return HeldReplica(
        topic=name.topic,
        partition=name.partition,
        size_bytes=NOT_TOLD,
        offset_lag=0,
        is_future=False,
    )


def _partition(
    state: PartitionRegistration, brokers: Mapping[BrokerId, BrokerRegistration]
) -> PartitionPicture:
    return PartitionPicture(
        leader=state.leader,
        replicas=state.replicas,
        isr=state.isr,
        offline=tuple(
            broker
            for broker, directory in _placed(state)
            if not serves(brokers.get(broker), directory)
        ),
        elr=state.elr,
        last_known_elr=state.last_known_elr,
        adding=state.adding_replicas,
        removing=state.removing_replicas,
    )
