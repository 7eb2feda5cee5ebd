"""Carries proposed ISRs to the controller: AlterPartition.

At most one request is on its way; what is proposed meanwhile shares the next one. A request that
fails as a whole is sent again after 50 ms, for ever, as long as its proposals stand: until then the
high watermark may have to wait for what was proposed.

Source: `kafka.server.DefaultAlterPartitionManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.replication.leader_state import LeaderState
from broker.replication.partition import Partition
from jbodlab.error_code import ErrorCode
from jbodlab.errors import ControllerUnavailableError, DecodeError
from jbodlab.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicIdPartition
from jbodlab.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChange,
    IsrMember,
)

RETRY_S = 0.05

RECOVERED = 0
"""The leader recovery state of a partition whose leader holds all there is."""

logger = logging.getLogger(__name__)


class IsrUpdates:
    """The queue of proposed ISRs of this broker.

    Args:
        broker_id: This broker.
        send: Sends a request; raises ControllerUnavailableError without an answer in time.
        broker_epoch: Returns this broker's epoch.
        registered_epoch: Returns the epoch of a registered broker, None for others.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        send: Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]],
        broker_epoch: Callable[[], BrokerEpoch],
        registered_epoch: Callable[[BrokerId], int | None],
    ) -> None:
        self._broker_id = broker_id
        self._send = send
        self._broker_epoch = broker_epoch
        self._registered_epoch = registered_epoch
        self._proposals: dict[Partition, tuple[BrokerId, ...]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._refusal = ""
        """What the controller said last, or that it said nothing: told once, not each 50 ms."""

    def propose_isr(self, partition: Partition, new_isr: tuple[BrokerId, ...]) -> None:
        """Ask for a new ISR; the answer goes to `partition.isr_answered`."""
        self._proposals[partition] = new_isr
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Give up what is still proposed."""
        self._is_closed = True
        self._proposals.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._proposals:
                if not await self._send_once():
                    await asyncio.sleep(RETRY_S)
        finally:
            self._task = None

    async def _send_once(self) -> bool:
        """Send everything that still stands; returns whether nothing needs to be sent again."""
        proposals, self._proposals = self._proposals, {}
        asked: dict[TopicIdPartition, tuple[Partition, LeaderState]] = {}
        changes = []
        for partition, new_isr in proposals.items():
            leader = partition.leader
            if leader is not None and leader.proposed_isr == new_isr:
                key = TopicIdPartition(partition.topic_id, partition.topic_partition.partition)
                asked[key] = (partition, leader)
                changes.append(self._change(partition, leader, new_isr))
        if not changes:
            return True
        request = AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), changes=tuple(changes)
        )
        try:
            response = await self._send(request)
        except (ControllerUnavailableError, DecodeError) as error:
            self._refused(proposals, f"not answered: {error}")
            return False
        if response.error_code is not ErrorCode.NONE:
            self._refused(proposals, f"refused: {response.error_code.name}")
            return False
        self._refusal = ""
        done = True
        for result in response.results:
            found = asked.get(TopicIdPartition(result.topic_id, result.partition))
            if found is not None and found[0].isr_answered(found[1].leader_epoch, result):
                self._again({found[0]: proposals[found[0]]})
                done = False
        return done

    def _refused(self, proposals: dict[Partition, tuple[BrokerId, ...]], refusal: str) -> None:
        if refusal != self._refusal:
            logger.warning("AlterPartition %s, trying again", refusal)
        self._refusal = refusal
        self._again(proposals)

    def _again(self, proposals: dict[Partition, tuple[BrokerId, ...]]) -> None:
        for partition, new_isr in proposals.items():
            self._proposals.setdefault(partition, new_isr)

    def _change(
        self, partition: Partition, leader: LeaderState, new_isr: tuple[BrokerId, ...]
    ) -> IsrChange:
        return IsrChange(
            topic_id=partition.topic_id,
            partition=partition.topic_partition.partition,
            leader_epoch=leader.leader_epoch,
            new_isr=tuple(
                IsrMember(broker_id=broker, broker_epoch=self._epoch_of(broker, leader))
                for broker in new_isr
            ),
            # A leader that was elected uncleanly has recovered by leading.
            leader_recovery_state=RECOVERED,
            partition_epoch=leader.partition_epoch,
        )

    def _epoch_of(self, broker: BrokerId, leader: LeaderState) -> BrokerEpoch:
        """Return the epoch under which a member was judged; the controller compares it."""
        if broker == self._broker_id:
            return self._broker_epoch()
        if broker in leader.isr:
            registered = self._registered_epoch(broker)
            return UNKNOWN_BROKER_EPOCH if registered is None else BrokerEpoch(registered)
        return BrokerEpoch(leader.followers[broker].broker_epoch)
