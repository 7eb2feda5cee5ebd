"""Sends proposed ISRs to the controller: AlterPartition.

At most one request is in flight; proposals made meanwhile share the next one. A request that fails
as a whole is retried every 50 ms while its proposals are valid: until then the high watermark may
have to wait for the proposed members.

Source: `kafka.server.DefaultAlterPartitionManager`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from broker.bounds.limits import ISR_UPDATE_RETRY_S
from broker.replica.leading import LeaderState
from broker.replica.partition import Partition
from jbodlab.controller_api.requests import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrChange,
    IsrMember,
)
from jbodlab.runtime.supervised import end_tasks, supervised
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, DecodeError
from jbodlab.vocabulary.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, TopicIdPartition

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
        """The controller's last refusal, or that it said nothing: told once, not each 50 ms."""

    def propose_isr(self, partition: Partition, new_isr: tuple[BrokerId, ...]) -> None:
        """Ask for a new ISR; the answer goes to `partition.in_sync.answered`."""
        self._proposals[partition] = new_isr
        if self._task is None and not self._is_closed:
            self._task = supervised(self._run, name="ISR proposals")

    async def close(self) -> None:
        """Give up what is still proposed."""
        self._is_closed = True
        self._proposals.clear()
        await end_tasks([self._task])

    async def _run(self) -> None:
        while self._proposals:
            proposals, self._proposals = self._proposals, {}
            try:
                is_done = await self._send_once(proposals)
            except BaseException:
                # Nothing proposes them again: a leader waits for the answer to what it has asked.
                self._again(proposals)
                raise
            if not is_done:
                await asyncio.sleep(ISR_UPDATE_RETRY_S)
        # Here and not when the task is over: what is proposed in between would wait for ever.
        self._task = None

    async def _send_once(self, proposals: dict[Partition, tuple[BrokerId, ...]]) -> bool:
        """Send everything that still stands; returns whether nothing needs to be sent again."""
        asked: dict[TopicIdPartition, tuple[Partition, LeaderState]] = {}
        changes = []
        for partition, new_isr in proposals.items():
            leader = partition.leader
            if leader is not None and leader.proposed_isr == new_isr:
                change = self._change_or_none(partition, leader, new_isr)
                if change is not None:
                    key = partition.key
                    asked[key] = (partition, leader)
                    changes.append(change)
        if not changes:
            return True
        request = AlterPartitionRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch(), changes=tuple(changes)
        )
        try:
            response = await self._send(request)
        except (ControllerUnavailableError, DecodeError) as error:
            self._refused(proposals, f"failed: {error}")
            return False
        if response.error_code is not ErrorCode.NONE:
            self._refused(proposals, f"was refused: {response.error_code.name}")
            return False
        self._refusal = ""
        done = True
        for result in response.results:
            found = asked.get(TopicIdPartition(result.topic_id, result.partition))
            if found is not None and found[0].in_sync.answered(found[1].leader_epoch, result):
                self._again({found[0]: proposals[found[0]]})
                done = False
        return done

    def _refused(self, proposals: dict[Partition, tuple[BrokerId, ...]], refusal: str) -> None:
        if refusal != self._refusal:
            logger.warning("AlterPartition %s; retrying", refusal)
        self._refusal = refusal
        self._again(proposals)

    def _again(self, proposals: dict[Partition, tuple[BrokerId, ...]]) -> None:
        for partition, new_isr in proposals.items():
            self._proposals.setdefault(partition, new_isr)

    def _change_or_none(
        self, partition: Partition, leader: LeaderState, new_isr: tuple[BrokerId, ...]
    ) -> IsrChange | None:
        """Return the change; one that cannot be named is not proposed, and stops no other."""
        try:
            return self._change(partition, leader, new_isr)
        except Exception:
            logger.exception(
                "cannot propose ISR %s for %s", list(new_isr), partition.topic_partition
            )
            partition.in_sync.proposal_failed()
            return None

    def _change(
        self, partition: Partition, leader: LeaderState, new_isr: tuple[BrokerId, ...]
    ) -> IsrChange:
        return IsrChange(
            topic_id=partition.topic_id,
            partition=partition.topic_partition.partition,
            leader_epoch=leader.leader_epoch,
            new_isr=tuple(
                IsrMember(broker_id=broker, broker_epoch=self._epoch_of(broker, leader))
                # By id, as Kafka writes it, in whichever order the replicas came.
                for broker in sorted(new_isr)
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
