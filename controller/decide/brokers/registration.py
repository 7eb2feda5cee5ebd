"""Registration of a broker process, and its removal by an operator.

A registration with a new incarnation starts a new broker epoch, fenced. The same result settles
what the old incarnation led or replicated: no replica remains leader or in an ISR because of a
process that has ended or a directory that is gone.

Source: `ClusterControlManager.registerBroker`, `ReplicationControlManager`, KIP-631, KIP-858,
KIP-966 for the epoch of a clean shutdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.decide.brokers.brokers import fence_record
from controller.decide.brokers.registration_checks import checked_registration
from controller.decide.cordon import registered_cordons
from controller.decide.heartbeats import Contact
from controller.decide.partitions.leader_and_isr import (
    electable,
    in_isr,
    in_isr_or_elr,
    lies_in,
    without_broker,
)
from controller.decide.state import (
    RECORDS_PER_RESULT_MAX,
    ControllerResult,
    ControllerState,
    PartitionEntry,
    RecordList,
    partitions,
)
from jbodlab.controller_api.requests import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.metadata_version import (
    ELR_LEVEL,
    JBOD_LEVEL,
    TRANSACTION_LEVEL,
)
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerEpoch, DirectoryId


def register_broker(
    request: BrokerRegistrationRequest, state: ControllerState, now_ms: int
) -> ControllerResult[BrokerRegistrationResponse]:
    """Register a broker process; the answer is its broker epoch.

    A process that registers once more while it takes part may bring directories back: where that
    gives a partition somebody who can lead it, the election follows the registration at once. The
    unfencing of a new process does the same for it.
    """
    old = state.image.cluster.brokers.get(request.broker_id)
    try:
        features = checked_registration(request, state, old, now_ms)
    except KafkaError as error:
        return ControllerResult(
            response=BrokerRegistrationResponse(error_code=error.code, error_message=error.message)
        )
    is_same = old is not None and old.incarnation_id == request.incarnation_id
    records = RecordList(state.metadata_version)
    if old is not None and not is_same and old.fenced and _has_session(state, old):
        # Kafka refuses who was stopped in order until its session has ended, and writes that.
        records.add(fence_record(state, old))
    epoch = (
        old.epoch if is_same and old is not None else BrokerEpoch(state.next_offset + len(records))
    )
    for change in _left_behind(request, state, old):
        records.add(change)
    records.add(_registration(request, state, old, epoch, features))
    if is_same:
        for change in electable(state.with_records_replayed(records)):
            records.add(change)
    heartbeats = state.heartbeats
    if is_same and request.broker_id in heartbeats.contacts:
        offset = heartbeats.contacts[request.broker_id].metadata_offset
        heartbeats = heartbeats.touched(request.broker_id, offset, now_ms)
    else:
        # Directories that this process reports offline and has not registered are not its own.
        contact = Contact(last_contact_ms=now_ms, offline_log_dirs=frozenset(), has_session=False)
        heartbeats = heartbeats.with_contact(request.broker_id, contact)
    return ControllerResult(
        response=BrokerRegistrationResponse(broker_epoch=epoch),
        records=records.as_tuple(),
        heartbeats=heartbeats,
        # Without transactions a large result is cut. That is right at every cut: what the process
        # before has left behind must be cleaned up whether or not this one gets registered.
        atomic=(
            state.metadata_version >= TRANSACTION_LEVEL or len(records) <= RECORDS_PER_RESULT_MAX
        ),
    )


def unregister_broker(
    request: UnregisterBrokerRequest, state: ControllerState, now_ms: int
) -> ControllerResult[UnregisterBrokerResponse]:
    """Remove a broker; replica lists go on naming it, its directory ids are free for others.

    Raises:
        KafkaError: POLICY_VIOLATION: it is alive, and in too many ISRs to leave them at once. A
            broker that was stopped has left them.
    """
    registration = state.image.cluster.brokers.get(request.broker_id)
    if registration is None:
        return ControllerResult(
            response=UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
                error_message=f"Broker ID {request.broker_id} is not currently registered",
            )
        )
    records = RecordList(state.metadata_version)
    for change in without_broker(state, request.broker_id, in_isr(state, request.broker_id)):
        records.add(change)
    records.add(
        UnregisterBrokerRecord(broker_id=request.broker_id, broker_epoch=registration.epoch)
    )
    records.check_size()
    return ControllerResult(
        response=UnregisterBrokerResponse(),
        records=records.as_tuple(),
        heartbeats=state.heartbeats.without(request.broker_id),
    )


def _has_session(state: ControllerState, registration: BrokerRegistration) -> bool:
    contact = state.heartbeats.contacts.get(registration.broker_id)
    return contact is not None and contact.has_session


def _registration(
    request: BrokerRegistrationRequest,
    state: ControllerState,
    old: BrokerRegistration | None,
    epoch: BrokerEpoch,
    features: tuple[BrokerFeature, ...],
) -> RegisterBrokerRecord:
    """Return the record; a process that registers once more keeps what it had reached."""
    kept = old if old is not None and old.incarnation_id == request.incarnation_id else None
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ),
        features=features,
        rack=request.rack,
        fenced=True if kept is None else kept.fenced,
        in_controlled_shutdown=False if kept is None else kept.in_controlled_shutdown,
        log_dirs=request.log_dirs if state.metadata_version >= JBOD_LEVEL else (),
        cordoned_log_dirs=registered_cordons(
            request.cordoned_log_dirs, request.log_dirs, old, state
        ),
    )


def _left_behind(
    request: BrokerRegistrationRequest, state: ControllerState, old: BrokerRegistration | None
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that take the broker out of what it is in no more.

    That is every ISR after a process that ended without handing over, every ELR if that was not
    in order, and all replicas of a directory that is gone.
    """
    broker_id = request.broker_id
    gone: tuple[DirectoryId, ...] = ()
    if old is not None and state.metadata_version >= JBOD_LEVEL:
        gone = tuple(each for each in old.directories if each not in request.log_dirs)
    is_same = old is not None and old.incarnation_id == request.incarnation_id
    is_clean = is_same or (old is not None and request.previous_broker_epoch == old.epoch)
    is_unclean = state.metadata_version >= ELR_LEVEL and not is_clean
    # Its session may have run out, but the timer has not come round to fence it.
    is_left = is_unclean or (old is not None and not is_same and not old.fenced)
    affected: Iterable[PartitionEntry]
    if is_unclean:
        affected = in_isr_or_elr(state, broker_id)
    else:
        affected = (
            each
            for each in partitions(state.image)
            if (is_left and broker_id in each.state.isr) or lies_in(each, broker_id, gone)
        )
    yield from without_broker(state, broker_id, affected, failed=gone, is_unclean=is_unclean)
