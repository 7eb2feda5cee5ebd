"""Produce: record batches to the replicas.

The batches are passed on as they came; the replicas check and stamp them. With acks=0 there is no
response, so the only way to report an error to the client is to close its connection.

Batches for another leader are forwarded in front of this handler: `produce_forwarder`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.api.parts import ApiParts, serves
from broker.api.services.leader_hints import LeaderHints
from broker.bounds.limits import APPENDED_AT_ONCE
from broker.replica.waiting import AppendEntry, AppendResult, BatchTransaction
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.kafka_wire.leader_hints import NodeEndpoint
from jbodlab.kafka_wire.produce_response import ProducedPartition, ProducedTopic
from jbodlab.metadata.client_quota import PRODUCER_RATE
from jbodlab.record_batch.compression import ZSTD
from jbodlab.record_batch.record_batch import codec_of, is_transactional, producer_of, records_count
from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import MILLISECOND, Answer, Later, NoAnswer, RequestContext
from jbodlab.server.passed_on import PREFIX as FORWARDING_PREFIX
from jbodlab.server.passed_on import named_client
from jbodlab.server.resources import all_of, on_topics, on_transaction
from jbodlab.server.response import NO_TIME, Response
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, TopicPartition

if TYPE_CHECKING:
    from kio.schema.produce.v12.request import ProduceRequest

ALL, LEADER, NONE = -1, 1, 0
"""The values of `acks`."""


ZSTD_FROM = 7
"""First version whose batches may be compressed with zstd (KIP-110)."""
ABORTABLE_FROM = 11
"""First version whose clients know TRANSACTION_ABORTABLE."""
ADDS_FROM = 12
"""First version with which the broker adds partitions to the transaction (KIP-890)."""


class ProduceResponse(Response, frozen=True, kw_only=True):
    """One entry for each partition of the request."""

    responses: Sequence[ProducedTopic]
    node_endpoints: Collection[NodeEndpoint]


@serves(
    ApiKey.PRODUCE,
    (0, 12),
    all_of(on_transaction(AclOperation.WRITE), on_topics(AclOperation.WRITE, "topic_data")),
    accepted=(3, 12),
    # It names what one broker leads.
    max_items=10_000,
    has_records=True,
    around=lambda parts: parts.produce_forwarder.around,
)
class ProduceApi:
    """Appends, and answers when the wanted acknowledgements are there."""

    def __init__(self, parts: ApiParts) -> None:
        self._appends = parts.appends
        self._cache = parts.cache
        self._broker_id = parts.broker_id
        self._traffic = parts.traffic
        self._quotas = parts.quotas
        self._forwarder = parts.produce_forwarder

    def answer(self, request: ProduceRequest, context: RequestContext) -> Answer:
        """Append every batch of the request."""
        acks = request.acks
        if acks not in (ALL, LEADER, NONE):
            raise KafkaError(
                ErrorCode.INVALID_REQUIRED_ACKS, f"expected acks -1, 0 or 1, got {acks}"
            )
        header = context.header
        version = header.api_version
        if version < ZSTD_FROM:
            _check_no_zstd(request, version)
        entries: list[AppendEntry] = []
        of_transaction: list[bytes | memoryview] = []
        size = 0
        for topic in request.topic_data:
            name = topic.name
            if name in INTERNAL_TOPICS:
                continue
            for data in topic.partition_data:
                records = data.records
                entries.append(AppendEntry(TopicPartition(name, data.index), records))
                if records is not None:
                    size += len(records)
                    if is_transactional(records):
                        of_transaction.append(records)
        transaction = _transaction(request, of_transaction, version) if of_transaction else None
        timeout_ms = request.timeout // MILLISECOND
        if not entries:
            return self._finish(request, context, 0, [])
        future = self._appends.append(entries, acks, timeout_ms, transaction)
        throttle_ms = 0
        # Any client can take a name as brokers have it that forward.
        is_forwarded = (
            header.client_id is not None
            and header.client_id.startswith(FORWARDING_PREFIX)
            and named_client(header.client_id) is not None
            and self._cache.is_for_brokers(context.listener_name)
        )
        if self._cache.image.quotas and not is_forwarded:
            throttle_ms = self._quotas.throttle(
                PRODUCER_RATE, header.client_id, context.session, size
            )
        finish = partial(self._finish, request, context, throttle_ms)
        # The next request must find all of this one appended. Of many batches only the first are.
        overlaps = len(entries) <= APPENDED_AT_ONCE
        return Later(future, finish, overlaps=overlaps, is_forwarded=is_forwarded)

    def failure(
        self, request: ProduceRequest, context: RequestContext, error: KafkaError
    ) -> Response:
        """Return the error for every partition."""
        if request.acks == NONE:
            return NoAnswer(failure=f"produce with acks=0 failed: {error}")
        hints = LeaderHints(self._cache, self._broker_id, context.listener_name)
        topics = [
            (
                topic.name,
                [
                    hints.produced(
                        AppendResult(
                            topic_partition=TopicPartition(topic.name, data.index),
                            error_code=error.code,
                            error_message=error.message or None,
                        )
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=topics, node_endpoints=hints.endpoints)

    refused = failure

    def _finish(
        self,
        request: ProduceRequest,
        context: RequestContext,
        throttle_ms: int,
        results: Iterable[AppendResult],
    ) -> Response:
        remaining = iter(results)
        traffic = self._traffic
        hints: LeaderHints | None = None
        failure: AppendResult | None = None
        topics: list[ProducedTopic] = []
        for topic in request.topic_data:
            name = topic.name
            is_refused = name in INTERNAL_TOPICS
            produced: list[ProducedPartition] = []
            for data in topic.partition_data:
                result = _refused(name, data.index) if is_refused else next(remaining)
                records = data.records
                if result.error_code is ErrorCode.NONE and records is not None:
                    traffic.produced(name, len(records), records_count(records))
                    produced.append(
                        ProducedPartition(
                            data.index,
                            ErrorCode.NONE,
                            result.base_offset,
                            result.log_append_time_ms,
                            result.log_start_offset,
                        )
                    )
                    continue
                traffic.produce_failed(name, result.error_code)
                if result.error_code is not ErrorCode.NONE:
                    failure = failure or result
                if hints is None:
                    hints = LeaderHints(self._cache, self._broker_id, context.listener_name)
                produced.append(hints.produced(result))
            topics.append((name, produced))
        assert next(remaining, None) is None
        if request.acks == NONE:
            return NoAnswer(failure=None if failure is None else _text(failure))
        if failure is not None:
            self._forwarder.refused(request, context, topics)
        return ProduceResponse(
            responses=topics,
            node_endpoints=() if hints is None else hints.endpoints,
            throttle_time=throttle_ms * MILLISECOND if throttle_ms else NO_TIME,
        )


def _transaction(
    request: ProduceRequest, of_transaction: Iterable[bytes | memoryview], version: int
) -> BatchTransaction:
    """Return the transaction that some batches of a request belong to.

    Raises:
        KafkaError: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the request names none;
            INVALID_PRODUCER_ID_MAPPING, the batches are of several producers.
    """
    if request.transactional_id is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "the request has a batch of a transaction, but no transactional id",
        )
    if len({producer_of(records) for records in of_transaction}) > 1:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the batches of transactional id {request.transactional_id} are of several producers",
        )
    return BatchTransaction(
        transactional_id=request.transactional_id,
        adds_partitions=version >= ADDS_FROM,
        knows_abortable=version >= ABORTABLE_FROM,
    )


def _check_no_zstd(request: ProduceRequest, version: int) -> None:
    """Refuse what clients of this version could not read again.

    Raises:
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    if any(
        data.records is not None and codec_of(data.records) == ZSTD
        for topic in request.topic_data
        for data in topic.partition_data
    ):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce version {version} does not support zstd",
        )


def _refused(topic: str, index: int) -> AppendResult:
    """Return the result of a batch for a topic of the brokers' own, which was not appended."""
    return AppendResult(
        topic_partition=TopicPartition(topic, index),
        error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
        error_message=f"{topic} is an internal topic: only brokers write to it",
    )


def _text(failure: AppendResult) -> str:
    code = failure.error_code.name
    return f"produce with acks=0 to {failure.topic_partition} failed: {code}"
