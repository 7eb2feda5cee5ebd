"""WriteTxnMarkers: a coordinator ends transactions in the partitions that this broker leads.

Administrators end a transaction with it that no coordinator knows any more.

Source: `kafka.server.KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.api.parts import ApiHandler, serves
from broker.produce.marker_appends import TransactionMarker
from broker.replica.waiting import AppendResult
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Later, RequestContext
from jbodlab.server.failures import FailsBySchema
from jbodlab.server.resources import on_cluster
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.write_txn_markers.v2.request import WriteTxnMarkersRequest

WRITE_TXN_MARKERS = ResponseStructs(ApiKey.WRITE_TXN_MARKERS, 2)


@serves(
    ApiKey.WRITE_TXN_MARKERS,
    (1, 2),
    on_cluster(AclOperation.CLUSTER_ACTION, instead=AclOperation.ALTER),
)
class WriteTxnMarkersApi(ApiHandler, FailsBySchema):
    """Appends markers, and answers when they are replicated."""

    def answer(self, request: WriteTxnMarkersRequest, context: RequestContext) -> Later:
        """Append every marker of the request."""
        markers = [
            TransactionMarker(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                is_committed=each.transaction_result,
                coordinator_epoch=each.coordinator_epoch,
                transaction_version=getattr(each, "transaction_version", 0),
                partitions=tuple(
                    TopicPartition(topic.name, index)
                    for topic in each.topics
                    for index in topic.partition_indexes
                ),
            )
            for each in request.markers
        ]
        return Later(
            self._parts.markers.write_markers(markers), lambda results: _response(request, results)
        )


def _response(request: WriteTxnMarkersRequest, results: Sequence[AppendResult]) -> Response:
    remaining = iter(results)
    return WRITE_TXN_MARKERS.response(
        markers=tuple(
            WRITE_TXN_MARKERS.WritableTxnMarkerResult(
                producer_id=each.producer_id,
                topics=tuple(
                    WRITE_TXN_MARKERS.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WRITE_TXN_MARKERS.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=next(remaining).error_code
                            )
                            for index in topic.partition_indexes
                        ),
                    )
                    for topic in each.topics
                ),
            )
            for each in request.markers
        )
    )
