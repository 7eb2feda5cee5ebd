"""Produce requests that this broker sends to other leaders for its own clients.

The leader recognises such requests by their client id, which names the client (see
`jbodlab.server.passed_on`). It decides by that client's rights, does not forward them again, and
leaves the quotas to the broker of the client.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from broker.bounds.limits import (
    ANSWER_MAX_S,
    ANSWER_SLACK_S,
    FORWARD_CONNECT_TIMEOUT_S,
    FORWARDED_MAX,
)
from broker.metadata.metadata_cache import BrokerNode
from broker.replica.waiting import AppendEntry, AppendResult, BatchTransaction, LeaderHint
from jbodlab.kafka_wire.api_table import ApiKey, item_class, request_class
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.server.passed_on import FORWARDING_CLIENT
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, TopicPartition

logger = logging.getLogger(__name__)

VERSION = 12
VERSION_NOT_ADDING = 11
"""The last version with which the leader does not add partitions to a transaction."""
VERSION_NOT_ABORTABLE = 10
"""The last version with which the leader does not answer TRANSACTION_ABORTABLE."""

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)


class NoReply(AppendResult, frozen=True):
    """The result of a batch to whose request the leader sent no response."""


class _Wait(msgspec.Struct, eq=False):
    """A request in progress, and until when an answer is waited for, on the loop's clock."""

    leader: BrokerNode
    entries: Sequence[AppendEntry]
    ends_s: float
    limit: asyncio.Timeout | None = None
    """None before the first step, and after the answer."""

    def hurry(self, ends_s: float) -> None:
        """Wait no longer than that."""
        if ends_s < self.ends_s:
            self.ends_s = ends_s
            if self.limit is not None and not self.limit.expired():
                self.limit.reschedule(ends_s)


class ForwardedAppends:
    """The requests to other leaders that are under way; on the event loop.

    Args:
        security: How other brokers are reached.
    """

    def __init__(self, security: ClientSecurity | None) -> None:
        self._peers = PeerPool(FORWARDING_CLIENT, FORWARD_CONNECT_TIMEOUT_S, security)
        # Not a set: whose turn comes first must not depend on where they lie in memory.
        self._waits: dict[_Wait, None] = {}

    @property
    def room(self) -> int:
        """How many requests more may be under way."""
        return FORWARDED_MAX - len(self._waits)

    def append(
        self,
        leader: BrokerNode,
        client_id: str,
        entries: Sequence[AppendEntry],
        acks: int,
        timeout_ms: int,
        transaction: BatchTransaction | None = None,
    ) -> asyncio.Task[list[AppendResult]]:
        """Have a leader append; the results are in the order of the entries.

        Without a response they are `NoReply`: NOT_LEADER_OR_FOLLOWER if the leader cannot be
        reached, REQUEST_TIMED_OUT if it does not respond in time or closes the connection. If the
        task is cancelled, the leader may have appended the batches or not.
        """
        loop = asyncio.get_running_loop()
        limit_s = min(max(0, timeout_ms) / 1000 + ANSWER_SLACK_S, ANSWER_MAX_S)
        wait = _Wait(leader, entries, loop.time() + limit_s)
        self._waits[wait] = None
        work = self._append(wait, client_id, acks, timeout_ms, transaction)
        task = loop.create_task(work, name="forward")
        task.add_done_callback(lambda _: self._waits.pop(wait))
        return task

    def leads_no_longer(self, leads: Callable[[BrokerId, TopicPartition], bool]) -> None:
        """Wait little longer for those that lead nothing any more of what they were sent.

        One that lives says so at once; one that stands would hold the client up.
        """
        ends_s = asyncio.get_running_loop().time() + ANSWER_SLACK_S
        for wait in self._waits:
            if not any(leads(wait.leader.id, entry.topic_partition) for entry in wait.entries):
                wait.hurry(ends_s)

    def close(self) -> None:
        """Close what is idle; what is in progress ends with the clients' connections."""
        self._peers.close()

    async def _append(
        self,
        wait: _Wait,
        client_id: str,
        acks: int,
        timeout_ms: int,
        transaction: BatchTransaction | None,
    ) -> list[AppendResult]:
        leader, entries = wait.leader, wait.entries
        version = _version(transaction)
        request = _request(entries, acks, timeout_ms, transaction, version)
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        try:
            async with (
                asyncio.timeout_at(wait.ends_s) as wait.limit,
                self._peers.borrowed((leader.host, leader.port)) as connection,
            ):
                code = ErrorCode.REQUEST_TIMED_OUT
                response = await connection.call(
                    ApiKey.PRODUCE, version, request, ANSWER_MAX_S, client_id=client_id
                )
        except (OSError, DecodeError) as error:
            return _failed(leader, entries, code, error)
        finally:
            wait.limit = None
        answers = [answer for topic in response.responses for answer in topic.partition_responses]
        return [_result(*each) for each in zip(entries, answers, strict=True)]


def _version(transaction: BatchTransaction | None) -> int:
    """Return the version that means for the leader what the client's meant here."""
    if transaction is None or transaction.adds_partitions:
        return VERSION
    return VERSION_NOT_ADDING if transaction.knows_abortable else VERSION_NOT_ABORTABLE


def _request(
    entries: Sequence[AppendEntry],
    acks: int,
    timeout_ms: int,
    transaction: BatchTransaction | None,
    version: int,
) -> Any:
    request: Any = request_class(ApiKey.PRODUCE, version)
    topic_data: Any = item_class(request, "topic_data")
    partition_data: Any = item_class(topic_data, "partition_data")
    return request(
        transactional_id=None if transaction is None else transaction.transactional_id,
        # Without acks there is no answer: nobody would know when the next batch may follow.
        acks=acks or 1,
        timeout=dt.timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            topic_data(
                name=topic,
                partition_data=tuple(
                    partition_data(index=entry.topic_partition.partition, records=entry.records)
                    for entry in of_topic
                ),
            )
            for topic, of_topic in groupby(entries, lambda entry: entry.topic_partition.topic)
        ),
    )


def _result(entry: AppendEntry, answer: Any) -> AppendResult:
    time, leader = answer.log_append_time, answer.current_leader
    return AppendResult(
        topic_partition=entry.topic_partition,
        error_code=ErrorCode(int(answer.error_code)),
        base_offset=answer.base_offset,
        log_append_time_ms=-1 if time is None else (time - EPOCH) // MILLISECOND,
        log_start_offset=answer.log_start_offset,
        error_message=answer.error_message,
        leader_hint=None
        if leader.leader_id < 0
        else LeaderHint(
            leader=BrokerId(leader.leader_id), leader_epoch=LeaderEpoch(leader.leader_epoch)
        ),
    )


def _failed(
    leader: BrokerNode, entries: Sequence[AppendEntry], code: ErrorCode, reason: Exception
) -> list[AppendResult]:
    logger.info("cannot forward batches to broker %d: %s", leader.id, reason or code.name)
    return [NoReply(topic_partition=entry.topic_partition, error_code=code) for entry in entries]
