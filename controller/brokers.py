"""Heartbeats of brokers: fencing, unfencing, controlled shutdown, failed directories.

A broker is in one of three control states; a heartbeat may move it.

    FENCED               may neither lead nor serve; every registration begins here
    UNFENCED             takes part
    CONTROLLED_SHUTDOWN  still there, leads nothing any more, waits until the others know it

SHUTDOWN_NOW is no state but a farewell: the broker is fenced and told to stop.

Source: `BrokerHeartbeatManager.calculateNextBrokerState`, `ReplicationControlManager`, KIP-631.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto

from controller.directories import add_offline_directories, newly_offline
from controller.heartbeats import Contact
from controller.leader_and_isr import in_isr, leads_any, with_broker, without_broker
from controller.state import ControllerResult, ControllerState, RecordList
from jbodlab import kafka_uuid
from jbodlab.error_code import ErrorCode
from jbodlab.ids import BrokerId, DirectoryId, Offset
from jbodlab.image.broker_registration import BrokerRegistration
from jbodlab.records.cluster_records import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
)
from jbodlab.records.metadata_version import (
    CONTROLLED_SHUTDOWN_LEVEL,
    JBOD_LEVEL,
    REGISTRATION_CHANGE_LEVEL,
)
from jbodlab.requests import BrokerHeartbeatRequest, BrokerHeartbeatResponse

logger = logging.getLogger(__name__)


class ControlState(Enum):
    """What a broker is allowed to do."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def heartbeat(
    request: BrokerHeartbeatRequest, state: ControllerState, now_ms: int
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Take note of a sign of life, and change the broker's state if it is time to.

    A broker whose directories have all failed is fenced and stays so: a registration without any
    directory cannot be written.
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
    if state.metadata_version >= JBOD_LEVEL:
        failed = newly_offline(registration, request.offline_log_dirs)
        _warn_of_unknown(request, registration, state)
    all_failed = bool(failed) and len(failed) == len(registration.directories)
    current = _current(state, registration)
    next_state = _next(_Situation(request, state, registration, all_failed), current)

    records = RecordList(state.metadata_version)
    left_isrs = False
    if next_state is not current:
        left_isrs = _add_transition(records, state, registration, next_state, failed)
    if failed and not all_failed:
        add_offline_directories(records, state, registration, failed, left_isrs=left_isrs)
    is_fenced = next_state in (ControlState.FENCED, ControlState.SHUTDOWN_NOW)
    return ControllerResult(
        response=BrokerHeartbeatResponse(
            is_caught_up=request.current_metadata_offset >= registration.record_offset,
            is_fenced=is_fenced,
            should_shut_down=next_state is ControlState.SHUTDOWN_NOW,
        ),
        records=records.as_tuple(),
        heartbeats=state.heartbeats.with_contact(
            request.broker_id,
            Contact(
                last_contact_ms=now_ms,
                metadata_offset=request.current_metadata_offset,
                controlled_shutdown_offset=_shutdown_offset(state, request, next_state, records),
                offline_log_dirs=frozenset(request.offline_log_dirs),
            ),
        ),
    )


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

    One at a time, so that each fencing sees the result of the one before.
    """
    broker_id = state.heartbeats.longest_silent(state.image.cluster)
    if broker_id is None or state.heartbeats.session_is_valid(broker_id, now_ms):
        return ControllerResult(response=None)
    records = RecordList(state.metadata_version)
    _add_fencing(records, state, state.image.cluster.brokers[broker_id])
    old = state.heartbeats.contacts[broker_id]
    silent = Contact(last_contact_ms=old.last_contact_ms, metadata_offset=old.metadata_offset)
    return ControllerResult(
        response=broker_id,
        records=records.as_tuple(),
        heartbeats=state.heartbeats.with_contact(broker_id, silent),
    )


@dataclass(frozen=True, slots=True)
class _Situation:
    request: BrokerHeartbeatRequest
    state: ControllerState
    registration: BrokerRegistration
    all_failed: bool


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
    """Log ids that are not registered: foreign, or offline since before a restart."""
    contact = state.heartbeats.contacts.get(request.broker_id)
    known = contact.offline_log_dirs if contact is not None else frozenset()
    for directory in request.offline_log_dirs:
        if directory not in known and directory not in registration.directories:
            logger.warning(
                "broker reports a directory offline that it has not registered",
                extra={
                    "broker_id": request.broker_id,
                    "directory_id": kafka_uuid.to_text(directory),
                },
            )


def _current(state: ControllerState, registration: BrokerRegistration) -> ControlState:
    if registration.fenced:
        return ControlState.FENCED
    if state.heartbeats.in_controlled_shutdown(registration.broker_id):
        return ControlState.CONTROLLED_SHUTDOWN
    return ControlState.UNFENCED


def _next(now: _Situation, current: ControlState) -> ControlState:
    request = now.request
    want_fence = request.want_fence or now.all_failed
    match current:
        case ControlState.FENCED:
            if request.want_shut_down:
                return ControlState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= now.registration.record_offset
            # A broker on its way out may not lead, so there is nothing to unfence it for: its next
            # process begins anew.
            leaves = now.registration.in_controlled_shutdown
            unfence = caught_up and not want_fence and not leaves
            return ControlState.UNFENCED if unfence else ControlState.FENCED
        case ControlState.UNFENCED if request.want_shut_down:
            if want_fence or not leads_any(now.state, request.broker_id):
                return ControlState.SHUTDOWN_NOW
            return ControlState.CONTROLLED_SHUTDOWN
        case ControlState.UNFENCED:
            return ControlState.FENCED if want_fence else ControlState.UNFENCED
        case _:
            return _next_in_shutdown(now)


def _next_in_shutdown(now: _Situation) -> ControlState:
    """Decide whether the others know all that a leaving broker has caused."""
    heartbeats, broker_id = now.state.heartbeats, now.request.broker_id
    offset = heartbeats.contacts[broker_id].controlled_shutdown_offset
    assert offset is not None
    if leads_any(now.state, broker_id):
        return ControlState.CONTROLLED_SHUTDOWN
    if offset <= heartbeats.lowest_active_offset(now.state.image.cluster):
        return ControlState.SHUTDOWN_NOW
    return ControlState.CONTROLLED_SHUTDOWN


def _add_transition(
    records: RecordList,
    state: ControllerState,
    registration: BrokerRegistration,
    next_state: ControlState,
    failed: tuple[DirectoryId, ...],
) -> bool:
    """Append the records of a new state; returns whether they take the broker out of all ISRs."""
    broker_id, epoch = registration.broker_id, registration.epoch
    if next_state is ControlState.UNFENCED:
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
    if next_state is ControlState.CONTROLLED_SHUTDOWN:
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
        for change in without_broker(state, broker_id, in_isr(state, broker_id)):
            records.add(change)
        return True
    # A broker that is fenced already needs no second record to be told to stop.
    if not registration.fenced:
        _add_fencing(records, state, registration)
        return True
    return False


def _add_fencing(
    records: RecordList, state: ControllerState, registration: BrokerRegistration
) -> None:
    broker_id, epoch = registration.broker_id, registration.epoch
    for change in without_broker(state, broker_id, in_isr(state, broker_id)):
        records.add(change)
    if state.metadata_version < REGISTRATION_CHANGE_LEVEL:
        records.add(FenceBrokerRecord(id=broker_id, epoch=epoch))
    else:
        records.add(
            BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=FENCE)
        )


def _shutdown_offset(
    state: ControllerState,
    request: BrokerHeartbeatRequest,
    next_state: ControlState,
    records: RecordList,
) -> Offset | None:
    """Return what the other brokers must reach before a leaving broker may go."""
    if next_state is not ControlState.CONTROLLED_SHUTDOWN:
        return None
    contact = state.heartbeats.contacts.get(request.broker_id)
    if contact is not None and contact.controlled_shutdown_offset is not None:
        return contact.controlled_shutdown_offset
    return Offset(state.next_offset + len(records) - 1)
