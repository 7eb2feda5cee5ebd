"""Heartbeats of brokers: fencing, unfencing, controlled shutdown, failed and degraded directories.

The result of a heartbeat contains, in this order: the broker's new state (`control_state.py`),
the failed directories, the degraded ones, which are evaluated in the state after the first two,
and the cordoned ones.

Source: `BrokerHeartbeatManager`, `ReplicationControlManager.processBrokerHeartbeat`, KIP-631.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from msgspec.structs import replace

from controller.decide.brokers.control_state import ControlState, current_state, next_state
from controller.decide.brokers.relief import add_relief
from controller.decide.cordon import cordoned_change
from controller.decide.degraded import HEALTHY, DegradedDirs
from controller.decide.heartbeats import Contact
from controller.decide.partitions.directories import add_offline_directories, newly_offline
from controller.decide.partitions.leader_and_isr import (
    in_isr_or_elr,
    lies_in,
    with_broker,
    without_broker,
)
from controller.decide.state import ControllerResult, ControllerState, RecordList
from jbodlab.controller_api.requests import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.records.cluster_records import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
)
from jbodlab.metadata.records.metadata_version import (
    CONTROLLED_SHUTDOWN_LEVEL,
    JBOD_LEVEL,
    REGISTRATION_CHANGE_LEVEL,
)
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, Offset

logger = logging.getLogger(__name__)


def heartbeat(
    request: BrokerHeartbeatRequest, state: ControllerState, now_ms: int
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Take note of a sign of life, and change the broker's state if it is time to.

    A broker whose directories have all failed is fenced and stays so: a registration without any
    directory cannot be written.

    Degraded directories are relieved by every heartbeat that names them, and not only by the first:
    an ISR member to hand over to may turn up later. A controller that has just become active waits
    until it knows those of all brokers.
    """
    registration = state.image.cluster.brokers.get(request.broker_id)
    stale = _stale(request, registration)
    if stale or registration is None:
        return ControllerResult(
            response=BrokerHeartbeatResponse(
                error_code=ErrorCode.STALE_BROKER_EPOCH, error_message=stale
            )
        )
    failed: tuple[DirectoryId, ...] = ()
    degraded = HEALTHY
    if state.metadata_version >= JBOD_LEVEL:
        failed = newly_offline(registration, request.offline_log_dirs)
        online = [each for each in registration.directories if each not in failed]
        degraded = DegradedDirs.reported(request, online)
        _warn_of_unknown(request, registration, state)
    all_failed = bool(failed) and len(failed) == len(registration.directories)
    upcoming = next_state(request, state, registration, all_failed=all_failed)
    is_fenced = upcoming in (ControlState.FENCED, ControlState.SHUTDOWN_NOW)
    contact = Contact(
        last_contact_ms=now_ms,
        metadata_offset=request.current_metadata_offset,
        metadata_log_dir=request.metadata_log_dir,
        end_offset=state.next_offset,
        caught_up_ms=_caught_up_ms(request, state, now_ms),
        offline_log_dirs=frozenset(request.offline_log_dirs),
        degraded_log_dirs=HEALTHY if is_fenced else degraded,
    )
    # Elections that come with the new state shall know of degraded directories already.
    state_with_contact = replace(
        state, heartbeats=state.heartbeats.with_contact(request.broker_id, contact)
    )

    records = RecordList(state.metadata_version)
    already_removed_from_isrs = False
    if upcoming is not current_state(state, registration):
        already_removed_from_isrs = _add_transition(
            records, state_with_contact, registration, upcoming, failed
        )
    if failed and not all_failed:
        add_offline_directories(
            records,
            state_with_contact,
            registration,
            failed,
            already_removed_from_isrs=already_removed_from_isrs,
        )
    shutdown_offset = _shutdown_offset(state, request, upcoming, records)
    add_relief(records, state, state_with_contact, request.broker_id, now_ms)
    records.add(cordoned_change(registration, request.cordoned_log_dirs, state))
    return ControllerResult(
        response=BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= registration.record_offset,
            is_fenced=is_fenced,
            should_shut_down=upcoming is ControlState.SHUTDOWN_NOW,
        ),
        records=records.as_tuple(),
        heartbeats=state.heartbeats.with_contact(
            request.broker_id, replace(contact, controlled_shutdown_offset=shutdown_offset)
        ),
    )


def _caught_up_ms(
    request: BrokerHeartbeatRequest, state: ControllerState, now_ms: int
) -> int | None:
    """Return when a broker had last all that there was of the metadata log."""
    if request.current_metadata_offset + 1 >= state.next_offset:
        return now_ms
    before = state.heartbeats.contacts.get(request.broker_id)
    return None if before is None else before.caught_up_at(request.current_metadata_offset)


def late_heartbeat(
    request: BrokerHeartbeatRequest, state: ControllerState, now_ms: int
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Refuse a heartbeat that waited too long, but count it as a sign of life.

    An overloaded controller must not fence brokers for its own slowness.
    """
    registration = state.image.cluster.brokers.get(request.broker_id)
    touched = None
    if registration is not None and registration.epoch == request.broker_epoch:
        touched = state.heartbeats.touched(
            request.broker_id, request.current_metadata_offset, now_ms
        )
    return ControllerResult(
        response=BrokerHeartbeatResponse(
            error_code=ErrorCode.REQUEST_TIMED_OUT,
            error_message="the heartbeat waited too long in the controller's queue",
        ),
        heartbeats=touched,
    )


def fence_stale_broker(state: ControllerState, now_ms: int) -> ControllerResult[BrokerId | None]:
    """Fence the broker that was silent for longest, if its session has ended.

    One at a time, so that each fencing sees the result of the one before. Of a broker that was
    stopped in order, and is fenced, the end of its session is written as well, as Kafka does.

    Returns:
        The broker; None if none was unfenced before.
    """
    broker_id = state.heartbeats.longest_silent(state.image.cluster)
    if broker_id is None or state.heartbeats.session_is_valid(broker_id, now_ms):
        return ControllerResult(response=None)
    records = RecordList(state.metadata_version)
    registration = state.image.cluster.brokers[broker_id]
    _add_fencing(records, state, registration)
    silent = replace(
        state.heartbeats.contacts[broker_id],
        controlled_shutdown_offset=None,
        degraded_log_dirs=HEALTHY,
        has_session=False,
    )
    return ControllerResult(
        response=None if registration.fenced else broker_id,
        records=records.as_tuple(),
        heartbeats=state.heartbeats.with_contact(broker_id, silent),
    )


def _stale(request: BrokerHeartbeatRequest, registration: BrokerRegistration | None) -> str:
    if registration is None:
        return f"No broker registration found for broker id {request.broker_id}"
    if registration.epoch != request.broker_epoch:
        return (
            f"Expected broker epoch {registration.epoch}, but got broker epoch "
            f"{request.broker_epoch}"
        )
    return ""


def _warn_of_unknown(
    request: BrokerHeartbeatRequest, registration: BrokerRegistration, state: ControllerState
) -> None:
    """Log ids that are not registered, once each."""
    contact = state.heartbeats.contacts.get(request.broker_id)
    known = contact.offline_log_dirs if contact is not None else None
    for directory in request.offline_log_dirs:
        if directory in (known or ()) or directory in registration.directories:
            continue
        extra = {
            "broker_id": request.broker_id,
            "directory_id": kafka_uuid.to_text(directory),
        }
        if known is None:
            logger.info(
                "a broker reports a directory that was already offline when this controller "
                "started",
                extra=extra,
            )
        else:
            logger.warning(
                "a broker reports a directory offline that it has not registered", extra=extra
            )


def _add_transition(
    records: RecordList,
    state: ControllerState,
    registration: BrokerRegistration,
    upcoming: ControlState,
    failed: tuple[DirectoryId, ...],
) -> bool:
    """Append the records of a new state; returns whether they take the broker out of all ISRs."""
    broker_id, epoch = registration.broker_id, registration.epoch
    if upcoming is ControlState.UNFENCED:
        if state.metadata_version < REGISTRATION_CHANGE_LEVEL:
            records.add(UnfenceBrokerRecord(id=broker_id, epoch=epoch))
        else:
            records.add(
                BrokerRegistrationChangeRecord(
                    broker_id=broker_id, broker_epoch=epoch, fenced=UNFENCE
                )
            )
        for change in with_broker(state, broker_id, failed):
            records.add(change)
        return False
    if upcoming is ControlState.CONTROLLED_SHUTDOWN:
        if (
            state.metadata_version >= CONTROLLED_SHUTDOWN_LEVEL
            and not registration.in_controlled_shutdown
        ):
            records.add(
                BrokerRegistrationChangeRecord(
                    broker_id=broker_id,
                    broker_epoch=epoch,
                    in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN,
                )
            )
        for change in _left(state, broker_id, failed):
            records.add(change)
        return True
    # A broker that is fenced already needs no second record to be told to stop.
    if not registration.fenced:
        _add_fencing(records, state, registration, failed)
        return True
    return False


def _left(
    state: ControllerState, broker_id: BrokerId, failed: tuple[DirectoryId, ...]
) -> Iterator[PartitionChangeRecord]:
    """Yield the changes that take a broker out of all ISRs, and what it lost out of ELRs."""
    affected = (
        each
        for each in in_isr_or_elr(state, broker_id)
        if broker_id in each.state.isr or lies_in(each, broker_id, failed)
    )
    yield from without_broker(state, broker_id, affected, failed=failed)


def _add_fencing(
    records: RecordList,
    state: ControllerState,
    registration: BrokerRegistration,
    failed: tuple[DirectoryId, ...] = (),
) -> None:
    for change in _left(state, registration.broker_id, failed):
        records.add(change)
    records.add(fence_record(state, registration))


def fence_record(
    state: ControllerState, registration: BrokerRegistration
) -> FenceBrokerRecord | BrokerRegistrationChangeRecord:
    """Return the record that fences a broker, as the metadata.version has it."""
    broker_id, epoch = registration.broker_id, registration.epoch
    if state.metadata_version < REGISTRATION_CHANGE_LEVEL:
        return FenceBrokerRecord(id=broker_id, epoch=epoch)
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=FENCE)


def _shutdown_offset(
    state: ControllerState,
    request: BrokerHeartbeatRequest,
    upcoming: ControlState,
    records: RecordList,
) -> Offset | None:
    """Return what the other brokers must reach before a leaving broker may go."""
    if upcoming is not ControlState.CONTROLLED_SHUTDOWN:
        return None
    contact = state.heartbeats.contacts.get(request.broker_id)
    if contact is not None and contact.controlled_shutdown_offset is not None:
        return contact.controlled_shutdown_offset
    return Offset(state.next_offset + len(records) - 1)
