"""Batches of producers that come back to a broker that leads no more: they are passed on.

Before version 10 of Produce a refusal cannot name the next leader (KIP-951), and some producers do
not look for it when they are refused, but when it is time for that: the writer of kafka-go repeats
a batch up to ten times, and learns of the leader up to 6 s later. So what a connection sends again
for a partition after it was refused is given to the leader, and the leader's answer to the client,
for a few seconds. Who looks for the leader is refused once and comes back no more.

Batches of idempotent producers are never passed on: one of them behind another one that was refused
would be out of order.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.api.answer import RequestContext, milliseconds
from broker.api.leader_hints import LeaderHints
from broker.metadata_cache import MetadataCache
from broker.replica.client_requests import AppendResult
from jbodlab.client import KafkaConnection
from jbodlab.error_code import ErrorCode
from jbodlab.errors import DecodeError, JbodlabError
from jbodlab.ids import BrokerId, TopicPartition
from jbodlab.protocol.api_table import ApiKey
from jbodlab.protocol.record_batch import read_header

if TYPE_CHECKING:
    from kio.schema.produce.v12.request import ProduceRequest

HINTS_FROM = 10
"""First version of Produce whose answers name the leader."""

PASSED_ON_S = 10.0
"""For so long after the first refusal; longer than any client is known to go without metadata."""

NO_PRODUCER_ID = -1
"""Of producers that are not idempotent."""

CONNECT_TIMEOUT_S = 2.0
TIMEOUT_MAX_S = 30.0

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """The first refusal of a partition on one connection while one leader leads."""

    leader_epoch: int
    at_s: float


class PassedOn:
    """Remembers whom this broker has refused, and asks the leader for those that come back."""

    def __init__(self, cache: MetadataCache, broker_id: BrokerId) -> None:
        self._cache = cache
        self._broker_id = broker_id

    def results(
        self,
        appended: asyncio.Future[list[AppendResult]],
        request: ProduceRequest,
        context: RequestContext,
    ) -> asyncio.Future[list[AppendResult]]:
        """Return the results, of the leader where this broker refused what had come back.

        What is returned is `appended` itself where nothing may be passed on.
        """
        refusals = context.connection.refusals
        since = asyncio.get_running_loop().time() - PASSED_ON_S
        if not any(refusal.at_s > since for refusal in refusals.values()):
            return appended
        work = self._with_leaders(appended, request, context)
        return asyncio.get_running_loop().create_task(work, name="produce requests passed on")

    def remember(self, results: Sequence[AppendResult], context: RequestContext) -> None:
        """Remember what is refused, for which another broker is known to lead."""
        if context.version >= HINTS_FROM:
            return
        refusals = context.connection.refusals
        for result in results:
            if result.error_code == ErrorCode.NONE:
                continue
            leader = self._hints(context).hint(
                result.topic_partition, result.error_code, result.leader_hint
            )
            known = refusals.get(result.topic_partition)
            if leader is not None and (known is None or known.leader_epoch != leader.leader_epoch):
                now = asyncio.get_running_loop().time()
                refusals[result.topic_partition] = Refusal(leader.leader_epoch, now)

    async def _with_leaders(
        self,
        appended: asyncio.Future[list[AppendResult]],
        request: ProduceRequest,
        context: RequestContext,
    ) -> list[AppendResult]:
        # Those that this request is the first to be refused for are no reason to pass it on.
        refusals = dict(context.connection.refusals)
        results = await appended
        hints = self._hints(context)
        since = asyncio.get_running_loop().time() - PASSED_ON_S
        wanted: dict[int, set[TopicPartition]] = {}
        for result in results:
            partition = result.topic_partition
            leader = hints.hint(partition, result.error_code, result.leader_hint)
            refusal = refusals.get(partition)
            if (
                leader is not None
                and refusal is not None
                and refusal.leader_epoch == leader.leader_epoch
                and refusal.at_s > since
            ):
                wanted.setdefault(leader.leader_id, set()).add(partition)
        found: dict[TopicPartition, AppendResult] = {}
        for endpoint in hints.endpoints:
            if part := _part(request, wanted.get(endpoint.node_id, set())):
                found |= await _ask(endpoint.host, endpoint.port, part, context)
        return [found.get(result.topic_partition, result) for result in results]

    def _hints(self, context: RequestContext) -> LeaderHints:
        return LeaderHints(self._cache, self._broker_id, context.listener_name)


def _part(request: ProduceRequest, wanted: set[TopicPartition]) -> ProduceRequest | None:
    """Return the request with some of its partitions; None without any that may be passed on."""
    topics = []
    for topic in request.topic_data:
        data = tuple(
            each
            for each in topic.partition_data
            if TopicPartition(topic.name, each.index) in wanted and _may_be_passed_on(each.records)
        )
        if data:
            topics.append(dataclasses.replace(topic, partition_data=data))
    return dataclasses.replace(request, topic_data=tuple(topics)) if topics else None


def _may_be_passed_on(records: Any) -> bool:
    try:
        return records is not None and read_header(records).producer_id == NO_PRODUCER_ID
    except DecodeError:
        return False


async def _ask(
    host: str, port: int, request: ProduceRequest, context: RequestContext
) -> dict[TopicPartition, AppendResult]:
    """Return the leader's results; none where it cannot be reached: the client tries again."""
    connection = None
    timeout_s = min(max(milliseconds(request.timeout) / 1000, 0.0) + 1.0, TIMEOUT_MAX_S)
    try:
        connection = await KafkaConnection.open(
            host,
            port,
            client_id=context.header.client_id or "",
            timeout_s=CONNECT_TIMEOUT_S,
        )
        response = await connection.call(ApiKey.PRODUCE, context.version, request, timeout_s)
    except (OSError, TimeoutError, JbodlabError) as error:
        logger.info("produce request not passed on to %s:%d: %r", host, port, error)
        return {}
    finally:
        if connection is not None:
            connection.close()
    return {
        result.topic_partition: result
        for topic in response.responses
        for result in (_result(topic.name, told) for told in topic.partition_responses)
    }


def _result(topic: str, told: Any) -> AppendResult:
    appended_at = told.log_append_time
    return AppendResult(
        topic_partition=TopicPartition(topic, told.index),
        error_code=ErrorCode(int(told.error_code)),
        base_offset=told.base_offset,
        log_append_time_ms=-1 if appended_at is None else (appended_at - EPOCH) // MILLISECOND,
        log_start_offset=getattr(told, "log_start_offset", -1),
        error_message=getattr(told, "error_message", None),
    )
