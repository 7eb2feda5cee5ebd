"""Tells the controller which directory holds which replica: drives the queue of `assignments`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial

from broker.bounds.limits import ASSIGNMENT_TIMEOUT_S
from broker.controller_link.assignments import Assignment, AssignmentQueue
from broker.controller_link.channel import ControllerChannel
from jbodlab.controller_api.requests import AssignReplicasToDirsRequest, DirectoryAssignment
from jbodlab.runtime.supervised import call_each, end_tasks, supervised
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, DecodeError
from jbodlab.vocabulary.ids import (
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    DirectoryId,
    TopicId,
    TopicIdPartition,
)
from jbodlab.vocabulary.loop_clock import call_at_ms, loop_ms

logger = logging.getLogger(__name__)


class AssignmentSender:
    """Sends assignments until the controller has accepted them.

    Args:
        channel: To the controller.
        broker_id: Ours.
        broker_epoch: Epoch of the current registration; -1 without one, and while one is due.
        is_replica: Whether this broker is a replica of a partition, by the current metadata.
        random: A number of [0, 1), which spreads what is tried again.
    """

    def __init__(
        self,
        *,
        channel: ControllerChannel,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        is_replica: Callable[[TopicIdPartition], bool],
        random: Callable[[], float],
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._is_replica = is_replica
        self._queue = AssignmentQueue(random=random)
        self._last_complaint = ""
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def pending_count(self) -> int:
        """Assignments that the controller has not accepted yet."""
        return self._queue.pending_count

    def pending(self, partition: TopicIdPartition) -> Assignment | None:
        """Return the newest assignment of a partition that is not accepted yet."""
        return self._queue.pending(partition)

    def pending_in(self, directory_id: DirectoryId) -> Iterator[TopicIdPartition]:
        """Return the partitions that the controller is about to hear of in a directory."""
        for assignment in self._queue.all_pending():
            if assignment.directory_id == directory_id:
                yield assignment.partition

    def assign(
        self,
        topic_id: TopicId,
        partition: int,
        directory_id: DirectoryId,
        callback: Callable[[], None] | None = None,
    ) -> None:
        """Report where a replica is; replaces an earlier report of the same one.

        Args:
            topic_id: Of the replica.
            partition: Of the replica.
            directory_id: The directory that holds it.
            callback: Called on the loop when the controller has accepted; not called if another
                report replaces this one, or the replica is gone.
        """
        assignment = Assignment(
            partition=TopicIdPartition(topic_id, partition),
            directory_id=directory_id,
            on_accepted=callback,
        )
        self._queue.submit(assignment, loop_ms())
        self._set_timer()

    def controller_found(self) -> None:
        """Tell another controller that has become active at once what waits."""
        self._queue.controller_found(loop_ms())
        self._set_timer()

    async def stop(self) -> None:
        """End; what was not accepted is found and reported again after the next start."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        await end_tasks([self._task])

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        send_ms = self._queue.next_send_ms
        if send_ms is not None and not self._is_stopped:
            self._timer = call_at_ms(send_ms, self._send)

    def _send(self) -> None:
        self._timer = None
        taken = self._queue.take(lambda assignment: self._is_replica(assignment.partition))
        if taken:
            self._task = supervised(partial(self._communicate, taken), name="assign replicas")
        else:
            self._set_timer()

    async def _communicate(self, taken: tuple[Assignment, ...]) -> None:
        try:
            accepted = await self._request(taken)
        except (ControllerUnavailableError, DecodeError) as error:
            self._complain(str(error))
            self._queue.failed(loop_ms())
            accepted = ()
        else:
            self._last_complaint = ""
        self._set_timer()
        call_each(
            [each.on_accepted for each in accepted if each.on_accepted is not None],
            "an accepted directory",
        )

    def _complain(self, text: str) -> None:
        """Log a failure once, not with every retry."""
        level = logging.DEBUG if text == self._last_complaint else logging.INFO
        self._last_complaint = text
        logger.log(level, "cannot report replica directories to the controller; retrying: %s", text)

    async def _request(self, taken: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
        broker_epoch = self._broker_epoch()
        if broker_epoch == UNKNOWN_BROKER_EPOCH:
            raise ControllerUnavailableError("this broker is yet to register")
        # In the order of directories, as Kafka sends them.
        taken = tuple(sorted(taken, key=lambda each: (each.directory_id, each.partition)))
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=broker_epoch,
            assignments=tuple(
                DirectoryAssignment(
                    topic_id=each.partition.topic_id,
                    partition=each.partition.partition,
                    directory=each.directory_id,
                )
                for each in taken
            ),
        )
        response = await self._channel.call(request, ASSIGNMENT_TIMEOUT_S)
        if response.error_code is not ErrorCode.NONE:
            raise ControllerUnavailableError(
                f"{response.error_code.name}: {response.error_message}"
            )
        # The queue takes an assignment without a code as not accepted.
        results = {
            (each.partition, each.directory_id): code
            for each, code in zip(taken, response.results, strict=False)
        }
        return self._queue.answered(results, loop_ms())
