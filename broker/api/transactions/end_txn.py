"""AddOffsetsToTxn and EndTxn: offsets take part in a transaction, and it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.api.parts import ApiHandler, serves
from broker.api.services.transactions import ProducerFailures, with_producer_id
from broker.transactions.requests import AddPartitions, EndTransaction
from broker.transactions.transaction import EPOCH_BUMP_FROM
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext, in_background
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import all_of, on_group, on_transaction
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from jbodlab.vocabulary.producer import Producer

if TYPE_CHECKING:
    from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
    from kio.schema.end_txn.v5.request import EndTxnRequest

ADD_OFFSETS_TO_TXN = ResponseStructs(ApiKey.ADD_OFFSETS_TO_TXN, 4)
END_TXN = ResponseStructs(ApiKey.END_TXN, 5)

NEXT_EPOCH_FROM = 5
"""Version of EndTxn from which the producer has another epoch afterwards."""


@serves(
    ApiKey.ADD_OFFSETS_TO_TXN,
    (0, 4),
    all_of(on_transaction(AclOperation.WRITE), on_group(AclOperation.READ)),
    around=lambda parts: parts.next_coordinator.around,
)
class AddOffsetsToTxnApi(ApiHandler, ProducerFailures):
    """Adds the partition of a group."""

    FENCED_FROM = 2

    def answer(self, request: AddOffsetsToTxnRequest, context: RequestContext) -> Later:
        """Add the partition in which the group has its offsets."""
        found = self._parts.cache.coordinator(GROUP_METADATA_TOPIC, request.group_id)
        if found is None:
            self._parts.topic_creator.create(GROUP_METADATA_TOPIC)
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{GROUP_METADATA_TOPIC} is being created"
            )
        given = {"partitions": found[:1], "transaction_version": 0}
        asked = value_of(AddPartitions, request, given)
        return Later(
            self._parts.transactions.submit(request.transactional_id, asked),
            lambda _: ADD_OFFSETS_TO_TXN.response(),
        )


@serves(
    ApiKey.END_TXN,
    (0, 5),
    on_transaction(AclOperation.WRITE),
    around=lambda parts: parts.next_coordinator.around,
)
class EndTxnApi(ApiHandler, ProducerFailures):
    """Commits or aborts."""

    FENCED_FROM = 2

    def answer(self, request: EndTxnRequest, context: RequestContext) -> Later:
        """End the transaction; its markers follow."""
        version = EPOCH_BUMP_FROM if context.version >= NEXT_EPOCH_FROM else 0
        return in_background(self._ended(request, version))

    async def _ended(self, request: EndTxnRequest, transaction_version: int) -> Response:
        given = {"transaction_version": transaction_version}
        producer: Producer = await with_producer_id(
            lambda fresh: self._parts.transactions.submit(
                request.transactional_id,
                value_of(EndTransaction, request, {**given, "fresh_producer_id": fresh}),
            ),
            self._parts.producer_ids,
        )
        return END_TXN.response(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )
