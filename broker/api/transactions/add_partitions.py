"""AddPartitionsToTxn: partitions take part in a transaction.

Up to version 3 a producer asks. From version 4 on the leaders of partitions ask for their
producers, for many transactions in one request: whether a partition takes part (KIP-890), or that
it does from now on. ApiVersions does not name these versions, as a client that takes the highest
one would send the form of brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from broker.api.parts import ApiHandler, serves
from broker.api.services.transactions import ProducerFailures
from broker.transactions.requests import AddPartitions, VerifyPartitions
from broker.transactions.transaction import EPOCH_BUMP_FROM
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import Answer, RequestContext, in_background
from jbodlab.server.request_values import value_of
from jbodlab.server.resources import Resource, all_of, on_cluster, on_topics, on_transaction
from jbodlab.server.response import Response
from jbodlab.server.response_structs import ResponseStructs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest

BATCHED_FROM = 4

Codes = Mapping[TopicPartition, ErrorCode]


ADD_PARTITIONS = ResponseStructs(ApiKey.ADD_PARTITIONS_TO_TXN, 5, 3)


def _asker(request: Any) -> Iterable[Resource]:
    """Return a producer's transaction; brokers ask as such."""
    if hasattr(request, "transactions"):
        return on_cluster(AclOperation.CLUSTER_ACTION)(request)
    return on_transaction(AclOperation.WRITE, "v3_and_below_transactional_id")(request)


@serves(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    (0, 3),
    all_of(
        _asker,
        on_topics(AclOperation.WRITE, "v3_and_below_topics", is_atomic=True),
    ),
    accepted=(0, 5),
    around=lambda parts: parts.next_coordinator.around,
)
class AddPartitionsToTxnApi(ApiHandler, ProducerFailures):
    """Asks the coordinators of transactions."""

    FENCED_FROM = 2

    def answer(self, request: AddPartitionsToTxnRequest, context: RequestContext) -> Answer:
        """Add partitions, or look whether they take part."""
        if context.version >= BATCHED_FROM:
            if not self._parts.cache.is_for_brokers(context.listener_name):
                raise KafkaError(
                    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                    f"listener {context.listener_name} does not serve requests of brokers",
                )
            return in_background(self._batched(request))
        return in_background(self._of_client(request))

    async def _of_client(self, request: Any) -> Response:
        partitions = _partitions(request.v3_and_below_topics)
        codes = await self._added(request, partitions, 0)
        return ADD_PARTITIONS.response(results_by_topic_v3_and_below=_results(codes))

    async def _batched(self, request: AddPartitionsToTxnRequest) -> Response:
        results = await asyncio.gather(*map(self._of_leader, request.transactions))
        return ADD_PARTITIONS.response(results_by_transaction=tuple(results))

    async def _of_leader(self, asked: Any) -> Any:
        partitions = _partitions(asked.topics)
        try:
            if asked.verify_only:
                verify = value_of(VerifyPartitions, asked, {"partitions": partitions})
                codes: Codes = await self._parts.transactions.submit(asked.transactional_id, verify)
            else:
                codes = await self._added(asked, partitions, EPOCH_BUMP_FROM)
        except KafkaError as error:
            codes = dict.fromkeys(partitions, error.code)
        return ADD_PARTITIONS.AddPartitionsToTxnResult(
            transactional_id=asked.transactional_id, topic_results=_results(codes)
        )

    async def _added(
        self, asked: Any, partitions: tuple[TopicPartition, ...], transaction_version: int
    ) -> Codes:
        """Have partitions added to the transaction of a request, or of an element of one."""
        if unknown := self._unknown(partitions):
            return unknown
        given = {"partitions": partitions, "transaction_version": transaction_version}
        add: AddPartitions = value_of(AddPartitions, asked, given)
        codes: Codes = await self._parts.transactions.submit(add.transactional_id, add)
        return codes

    def _unknown(self, partitions: Sequence[TopicPartition]) -> Codes:
        """Return codes for all partitions if there is one that does not exist; else nothing."""
        codes = {
            each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if self._parts.cache.partition(each) is None
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for each in partitions
        }
        return codes if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes.values() else {}


def _partitions(topics: Iterable[Any]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic.name, each) for topic in topics for each in topic.partitions)


def _results(codes: Codes) -> tuple[Any, ...]:
    return tuple(
        ADD_PARTITIONS.AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=tuple(
                ADD_PARTITIONS.AddPartitionsToTxnPartitionResult(
                    partition_index=each.partition, partition_error_code=code
                )
                for each, code in some
            ),
        )
        for name, some in groupby(sorted(codes.items()), lambda item: item[0].topic)
    )
