"""Blocks of producer ids for brokers.

Source: `ProducerIdControlManager`, KIP-730.
"""

from __future__ import annotations

from controller.decide.state import ControllerResult, ControllerState, RecordList
from jbodlab.controller_api.requests import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from jbodlab.metadata.records.config_records import ProducerIdsRecord
from jbodlab.vocabulary.error_code import ErrorCode

BLOCK_SIZE = 1_000
"""Ids of one block."""


def allocate_producer_ids(
    request: AllocateProducerIdsRequest, state: ControllerState, now_ms: int
) -> ControllerResult[AllocateProducerIdsResponse]:
    """Hand out the next block; no id is ever handed out twice."""
    registration = state.image.cluster.brokers.get(request.broker_id)
    if registration is None or registration.epoch != request.broker_epoch:
        return ControllerResult(
            response=AllocateProducerIdsResponse(
                error_code=ErrorCode.STALE_BROKER_EPOCH,
                error_message=f"broker {request.broker_id} does not have epoch "
                f"{request.broker_epoch}",
            )
        )
    start = state.image.next_producer_id
    if start > 2**63 - 1 - BLOCK_SIZE:
        return ControllerResult(
            response=AllocateProducerIdsResponse(
                error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
                error_message="Exhausted all producerIds as the next block's end producerId "
                "has exceeded the int64 type limit",
            )
        )
    records = RecordList(state.metadata_version)
    records.add(
        ProducerIdsRecord(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            next_producer_id=start + BLOCK_SIZE,
        )
    )
    return ControllerResult(
        response=AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE),
        records=records.as_tuple(),
    )
