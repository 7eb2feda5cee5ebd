"""The control states of a broker, and how a heartbeat changes them.

    FENCED               may neither lead nor serve; every registration begins here
    UNFENCED             takes part
    CONTROLLED_SHUTDOWN  still registered, leads nothing, waits until the other brokers know it

SHUTDOWN_NOW is not a state: it means that the broker is fenced and may stop.

Source: `BrokerHeartbeatManager.calculateNextBrokerState`, KIP-631.
"""

from __future__ import annotations

from enum import Enum, auto

from controller.decide.partitions.leader_and_isr import leads_any
from controller.decide.state import ControllerState
from jbodlab.controller_api.requests import BrokerHeartbeatRequest
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.vocabulary.ids import BrokerId


class ControlState(Enum):
    """States of a broker, with what each allows it."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


def current_state(state: ControllerState, registration: BrokerRegistration) -> ControlState:
    """Return the state that a broker is in; never SHUTDOWN_NOW."""
    if registration.fenced:
        return ControlState.FENCED
    if state.heartbeats.in_controlled_shutdown(registration.broker_id):
        return ControlState.CONTROLLED_SHUTDOWN
    return ControlState.UNFENCED


def next_state(
    request: BrokerHeartbeatRequest,
    state: ControllerState,
    registration: BrokerRegistration,
    *,
    all_failed: bool,
) -> ControlState:
    """Return the state that a heartbeat brings a broker into.

    Args:
        request: The heartbeat.
        state: The controller's state.
        registration: The broker's registration.
        all_failed: Whether none of its directories is left, so that it must be fenced.
    """
    want_fence = request.want_fence or all_failed
    match current_state(state, registration):
        case ControlState.FENCED:
            if request.want_shut_down:
                return ControlState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= registration.record_offset
            # A broker on its way out may not lead, so there is nothing to unfence it for: its next
            # process begins anew.
            leaves = registration.in_controlled_shutdown
            unfence = caught_up and not want_fence and not leaves
            return ControlState.UNFENCED if unfence else ControlState.FENCED
        case ControlState.UNFENCED if request.want_shut_down:
            if want_fence or not leads_any(state, request.broker_id):
                return ControlState.SHUTDOWN_NOW
            return ControlState.CONTROLLED_SHUTDOWN
        case ControlState.UNFENCED:
            return ControlState.FENCED if want_fence else ControlState.UNFENCED
        case _:
            return _next_in_shutdown(state, request.broker_id)


def _next_in_shutdown(state: ControllerState, broker_id: BrokerId) -> ControlState:
    """Decide whether the others know all that a leaving broker has caused."""
    offset = state.heartbeats.contacts[broker_id].controlled_shutdown_offset
    assert offset is not None
    if leads_any(state, broker_id):
        return ControlState.CONTROLLED_SHUTDOWN
    if offset <= state.heartbeats.lowest_active_offset(state.image.cluster):
        return ControlState.SHUTDOWN_NOW
    return ControlState.CONTROLLED_SHUTDOWN
