"""TxnOffsetCommit: offsets of a group that count when a transaction is committed.

The offsets are records of the transaction in the group's partition of `__consumer_offsets`, so the
coordinator of the transaction must know that partition as any other.

Source: `kafka.server.KafkaApis.handleTxnOffsetCommitRequest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.api.groups.offset_commit import OFFSET_COMMIT, AskedTopics, codes_of, no_error
from broker.api.parts import ApiHandler, serves
from broker.api.services.coordinators import check_group_id
from broker.groups import requests
from broker.groups.group_core import APPEND_ERRORS
from broker.produce.transaction_admission import Part, told_for
from broker.replica.waiting import BatchTransaction
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Answer, RequestContext, in_background
from jbodlab.server.failures import refused_elements
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import all_of, on_group, on_topics, on_transaction
from jbodlab.server.response import Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer

if TYPE_CHECKING:
    from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest

LOADING_FROM = 2
"""First version whose clients know COORDINATOR_LOAD_IN_PROGRESS."""
ABORTABLE_FROM = 4
"""First version whose clients know TRANSACTION_ABORTABLE."""
ADDS_FROM = 5
"""First version with which the broker adds the partition to the transaction (KIP-890)."""


@serves(
    ApiKey.TXN_OFFSET_COMMIT,
    (0, 5),
    all_of(
        on_transaction(AclOperation.WRITE),
        on_group(AclOperation.READ),
        on_topics(AclOperation.READ),
    ),
)
class TxnOffsetCommitApi(ApiHandler):
    """Has offsets kept for the end of a transaction."""

    # A client that is refused does not learn which partitions there are.
    refused = staticmethod(refused_elements)

    def answer(self, request: TxnOffsetCommitRequest, context: RequestContext) -> Answer:
        """Commit the offsets of partitions that exist."""
        check_group_id(request.group_id)
        asked = AskedTopics(request.topics, self._parts.cache.image.topics)
        topics = asked.to_commit()
        if not topics:
            return OFFSET_COMMIT.response(topics=asked.results(no_error))
        commit = requests.TxnOffsetCommit(
            producer=value_of(Producer, request, {}),
            commit=value_of(
                requests.OffsetCommit,
                request,
                {
                    "generation_id_or_member_epoch": getattr(request, "generation_id", -1),
                    "topics": topics,
                },
            ),
        )
        return in_background(self._commit(request, context.version, commit, asked))

    def failure(
        self, request: TxnOffsetCommitRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every partition that exists; of the others it is known already."""
        asked = AskedTopics(request.topics, self._parts.cache.image.topics)
        code = _told(error.code, _transaction(request, context.version), context.version)
        return OFFSET_COMMIT.response(topics=asked.results(lambda _topic, _index: code))

    async def _commit(
        self,
        request: TxnOffsetCommitRequest,
        version: int,
        commit: requests.TxnOffsetCommit,
        asked: AskedTopics,
    ) -> Response:
        replica = self._parts.groups.replica_of(request.group_id)
        part = Part(
            replica.topic_partition,
            *commit.producer,
            _transaction(request, version),
        )
        await self._parts.appends.admission.admitted(replica, part)
        done = await self._parts.groups.submit(request.group_id, commit)
        return OFFSET_COMMIT.response(topics=asked.results(codes_of(done)))


def _transaction(request: TxnOffsetCommitRequest, version: int) -> BatchTransaction:
    return BatchTransaction(
        transactional_id=request.transactional_id,
        adds_partitions=version >= ADDS_FROM,
        knows_abortable=version >= ABORTABLE_FROM,
    )


def _told(code: ErrorCode, transaction: BatchTransaction, version: int) -> ErrorCode:
    """Return the code that a client gets for an error of the coordinators or of the log."""
    if code in (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.CONCURRENT_TRANSACTIONS):
        code = told_for(code, transaction)
    code = APPEND_ERRORS.get(code, code)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_FROM:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
