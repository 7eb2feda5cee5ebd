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
from typing import Any

import msgspec

from broker.bounds.limits import (
    ANSWER_MAX_S,
    ANSWER_SLACK_S,
    FORWARD_CONNECT_TIMEOUT_S,
    FORWARDED_MAX,
)
from broker.metadata.metadata_cache import BrokerNode
from broker.replica.waiting import AppendResult, LeaderHint
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.peers.peer_pool import PeerPool
from jbodlab.server.passed_on import FORWARDING_CLIENT
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, TopicPartition

logger = logging.getLogger(__name__)

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND = dt.timedelta(milliseconds=1)


class NoReply(AppendResult, frozen=True):
    """The result of a batch to whose request the leader sent no response."""


class _Wait(msgspec.Struct, eq=False):
    """A request in progress, and until when an answer is waited for, on the loop's clock."""

    leader: BrokerNode
    partitions: Sequence[TopicPartition]
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
        version: int,
        request: Any,
    ) -> asyncio.Task[list[AppendResult]]:
        """Have a leader append; the results are in the order of the batches.

        The version is that of the client: it says what the client knows of transactions. Without a
        response the results are `NoReply`: NOT_LEADER_OR_FOLLOWER if the leader cannot be reached,
        REQUEST_TIMED_OUT if it does not respond in time or closes the connection. If the task is
        cancelled, the leader may have appended the batches or not.
        """
        loop = asyncio.get_running_loop()
        limit_s = min(max(0.0, request.timeout.total_seconds()) + ANSWER_SLACK_S, ANSWER_MAX_S)
        partitions = [
            TopicPartition(topic.name, data.index)
            for topic in request.topic_data
            for data in topic.partition_data
        ]
        wait = _Wait(leader, partitions, loop.time() + limit_s)
        self._waits[wait] = None
        work = self._append(wait, client_id, version, request)
        task = loop.create_task(work, name="forward")
        task.add_done_callback(lambda _: self._waits.pop(wait))
        return task

    def leads_no_longer(self, leads: Callable[[BrokerId, TopicPartition], bool]) -> None:
        """Wait little longer for those that lead nothing any more of what they were sent.

        One that lives says so at once; one that stands would hold the client up.
        """
        ends_s = asyncio.get_running_loop().time() + ANSWER_SLACK_S
        for wait in self._waits:
            if not any(leads(wait.leader.id, each) for each in wait.partitions):
                wait.hurry(ends_s)

    def close(self) -> None:
        """Close what is idle; what is in progress ends with the clients' connections."""
        self._peers.close()

    async def _append(
        self,
        wait: _Wait,
        client_id: str,
        version: int,
        request: Any,
    ) -> list[AppendResult]:
        leader, partitions = wait.leader, wait.partitions
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
            return _failed(leader, partitions, code, error)
        finally:
            wait.limit = None
        answers = [answer for topic in response.responses for answer in topic.partition_responses]
        return [_result(*each) for each in zip(partitions, answers, strict=True)]


def _result(partition: TopicPartition, answer: Any) -> AppendResult:
    """Return the result of a batch; fields that older versions lack are unknown."""
    time, leader = answer.log_append_time, getattr(answer, "current_leader", None)
    return AppendResult(
        topic_partition=partition,
        error_code=ErrorCode(int(answer.error_code)),
        base_offset=answer.base_offset,
        log_append_time_ms=-1 if time is None else (time - EPOCH) // MILLISECOND,
        log_start_offset=getattr(answer, "log_start_offset", -1),
        error_message=getattr(answer, "error_message", None),
        leader_hint=None
        if leader is None or leader.leader_id < 0
        else LeaderHint(
            leader=BrokerId(leader.leader_id), leader_epoch=LeaderEpoch(leader.leader_epoch)
        ),
    )


def _failed(
    leader: BrokerNode, partitions: Sequence[TopicPartition], code: ErrorCode, reason: Exception
) -> list[AppendResult]:
    logger.info("cannot forward batches to broker %d: %s", leader.id, reason or code.name)
    return [NoReply(topic_partition=each, error_code=code) for each in partitions]
