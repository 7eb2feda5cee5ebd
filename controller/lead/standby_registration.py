"""How a controller that is not active gets into the metadata: it has the active one register it.

Brokers learn from the registration where a controller is reached. The request is Kafka's, so the
active controller may be one of Apache Kafka, and the other way round.

Source: `kafka.server.ControllerRegistrationManager`, KIP-919.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from controller.decide.state import ControllerResult, ControllerState
from controller.lead.activation import is_registered
from controller.lead.leadership import Leadership
from controller.limits import REGISTRATION_PAUSE_S, REGISTRATION_TIMEOUT_S
from controller.quorum.raft_wire import REGISTRATION_VERSION, registration_message
from controller.quorum.replicated_log import NotLeaderError
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.metadata.records.cluster_records import RegisterControllerRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.metadata_version import CONTROLLER_REGISTRATION_LEVEL
from jbodlab.peers.peer_pool import Address, PeerPool
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError

logger = logging.getLogger(__name__)


def register_controller(
    record: RegisterControllerRecord, state: ControllerState, now_ms: int
) -> ControllerResult[None]:
    """Register a controller as it describes itself.

    Raises:
        KafkaError: UNSUPPORTED_VERSION, the metadata.version has no such records.
    """
    del now_ms
    if state.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controllers register themselves from metadata.version {CONTROLLER_REGISTRATION_LEVEL}"
            f" on; it is {state.metadata_version}",
        )
    records = (VersionedRecord(record, 0),)
    return ControllerResult(
        response=None, records=() if is_registered(state.image, records) else records
    )


async def registered(leadership: Leadership, record: RegisterControllerRecord) -> None:
    """Register a controller here.

    Raises:
        KafkaError: NOT_CONTROLLER, this node is not active; or as `register_controller`.
    """
    try:
        await leadership.term.controller.submit(partial(register_controller, record))
    except NotLeaderError as error:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, str(error)) from error


async def register_as_standby(
    leadership: Leadership, leader: Callable[[], Address | None], pool: PeerPool
) -> NoReturn:
    """Have the active controller register this process, as often as needed; until cancelled.

    Args:
        leadership: Of this node.
        leader: Returns where the active controller is reached; None while none is known.
        pool: Connections to other controllers.
    """
    last_complaint = ""
    with contextlib.closing(pool):
        while True:
            await asyncio.sleep(REGISTRATION_PAUSE_S)
            address, image = leader(), leadership.committed.image
            records = leadership.registration()
            if address is None or not records or is_registered(image, records):
                continue
            complaint = await _asked(pool, address, records[0])
            if complaint and complaint != last_complaint:
                logger.info("the active controller does not register this one: %s", complaint)
            last_complaint = complaint


async def _asked(pool: PeerPool, address: Address, registration: VersionedRecord) -> str:
    """Ask the active controller for a registration; returns why it failed, or an empty text."""
    record = registration.record
    assert isinstance(record, RegisterControllerRecord)
    sent = ApiKey.CONTROLLER_REGISTRATION, REGISTRATION_VERSION, registration_message(record)
    try:
        answer = await pool.call(address, *sent, REGISTRATION_TIMEOUT_S)
    except (OSError, TimeoutError, DecodeError) as error:
        return str(error) or type(error).__name__
    code = ErrorCode(answer.error_code)
    return "" if code is ErrorCode.NONE else f"{code.name}: {answer.error_message}"
