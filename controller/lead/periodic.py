"""Periodic tasks of an active controller.

The caller restarts a task that raises: see `jbodlab.runtime.supervised`.

Source: `QuorumController` and `PeriodicTask` with its users.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from controller.decide.brokers.brokers import fence_stale_broker
from controller.decide.partitions.elections import (
    balance_preferred_leaders,
    elect_leaderless,
    elect_unclean_leaders,
)
from controller.decide.state import ControllerResult, ControllerState
from controller.lead.active_controller import ActiveController
from controller.limits import PERIODIC_FAILURE_PAUSE_MS, SILENT_MS, SOON_MS, STOOD_STILL_MS
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import NO_OP_RECORDS
from jbodlab.vocabulary.errors import KafkaError

logger = logging.getLogger(__name__)


async def fence_stale_brokers(
    controller: ActiveController, session_timeout_ms: int, heartbeat_interval_ms: int
) -> None:
    """Fence one broker after the other as their sessions end; runs until cancelled.

    Nobody needs to wake this up: a session that begins now ends a whole timeout from now.
    """
    while True:
        state = controller.state
        expiry_ms = state.heartbeats.next_expiry_ms(state.image.cluster)
        planned_ms = controller.now_ms() + session_timeout_ms if expiry_ms is None else expiry_ms
        # The fencing before this one may have taken until behind that time.
        due_ms = max(planned_ms, controller.now_ms())
        await _sleep_until(controller, due_ms)
        late_ms = controller.now_ms() - due_ms
        if late_ms > min(STOOD_STILL_MS, heartbeat_interval_ms):
            # This process stood still, and with it everybody's heartbeats: let them arrive first.
            logger.warning("the controller process was paused", extra={"late_ms": late_ms})
            await asyncio.sleep(max(heartbeat_interval_ms, SILENT_MS) / 1000)
        if expiry_ms is None:
            continue
        fenced = await controller.submit(fence_stale_broker, is_own=True)
        if fenced is not None:
            logger.warning("fenced a broker: its session timed out", extra={"broker_id": fenced})


async def write_no_ops(controller: ActiveController, idle_interval_ms: int) -> None:
    """Write a record whenever nothing else was written for a while; runs until cancelled."""
    while idle_interval_ms > 0:
        await _sleep_until(controller, controller.last_append_ms + idle_interval_ms)
        if controller.now_ms() >= controller.last_append_ms + idle_interval_ms:
            await controller.submit(_no_op, is_own=True)


async def balance_leaders(controller: ActiveController, interval_ms: int) -> None:
    """Give leadership back to first replicas from time to time; runs until cancelled."""
    await _all_known(controller)
    await _repeat(controller, balance_preferred_leaders, interval_ms)


async def elect_uncleanly(controller: ActiveController, interval_ms: int) -> None:
    """Elect leaders outside of the ISR where that is allowed; runs until cancelled.

    First it catches up with what the controller before was killed in the middle of.
    """
    await _all_known(controller)
    await controller.submit(elect_leaderless, is_own=True)
    await _repeat(controller, elect_unclean_leaders, interval_ms)


async def _all_known(controller: ActiveController) -> None:
    """Wait until the brokers have told this controller which of their directories are full."""
    while not controller.state.heartbeats.are_known(
        controller.state.image.cluster, controller.now_ms()
    ):
        await _sleep_until(controller, controller.now_ms() + SOON_MS)


async def _repeat(
    controller: ActiveController,
    decide: Callable[[ControllerState, int], ControllerResult[bool]],
    interval_ms: int,
) -> None:
    pause_ms = interval_ms
    while True:
        await asyncio.sleep(pause_ms / 1000)
        try:
            has_more = await controller.submit(decide, is_own=True)
        except KafkaError:
            pause_ms = PERIODIC_FAILURE_PAUSE_MS
        else:
            pause_ms = SOON_MS if has_more else interval_ms


def _no_op(state: ControllerState, _now_ms: int) -> ControllerResult[None]:
    if state.metadata_version < NO_OP_RECORDS:
        return ControllerResult(response=None)
    return ControllerResult(response=None, records=(VersionedRecord(NoOpRecord(), 0),))


async def _sleep_until(controller: ActiveController, time_ms: int) -> None:
    await asyncio.sleep(max(0, time_ms - controller.now_ms()) / 1000)
