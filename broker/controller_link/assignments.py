"""The queue of AssignReplicasToDirs: which assignments wait, which are under way, when to send.

Of each partition only the newest assignment counts. One request is in flight at a time. An
assignment leaves the queue when the controller accepted it, when a newer one of its partition
replaced it, or when its replica is gone; nothing else makes it give up.

Source: `org.apache.kafka.server.AssignmentsManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from broker.bounds.limits import MAX_ASSIGNMENTS_PER_REQUEST
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import DirectoryId, TopicIdPartition

LINGER_MS = 5
"""Time in which assignments gather before they are sent.

Kafka waits 100 ms. The assignments of one metadata change come in one piece, and until they are
known a failure of their directory leaves the leader where it is.
"""

BACKOFF_MS = 100
BACKOFF_MS_MAX = 1_000
"""Kafka goes up to 10 s; for that time a restarted controller would not know the directories."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A replica of this broker and the directory that holds it."""

    partition: TopicIdPartition
    directory_id: DirectoryId
    on_accepted: Callable[[], None] | None = None


class AssignmentQueue:
    """State of the queue; times are ms of a clock that never goes back.

    Args:
        random: A number from 0 up to 1; spreads the retries of several brokers.
    """

    def __init__(self, *, random: Callable[[], float]) -> None:
        self._random = random
        self._ready: dict[TopicIdPartition, Assignment] = {}
        self._in_flight: dict[TopicIdPartition, Assignment] = {}
        self._failures = 0
        self._is_outdated = False
        """Whether another controller became active since the request in flight was sent."""
        self._send_ms: int | None = None

    @property
    def pending_count(self) -> int:
        """Metric `QueuedReplicaToDirAssignments`."""
        return len(self._ready) + len(self._in_flight)

    def pending(self, partition: TopicIdPartition) -> Assignment | None:
        """Return the newest assignment of a partition that is not accepted yet."""
        return self._ready.get(partition) or self._in_flight.get(partition)

    def all_pending(self) -> Iterator[Assignment]:
        """Return all assignments that are not accepted yet."""
        yield from self._ready.values()
        yield from self._in_flight.values()

    @property
    def next_send_ms(self) -> int | None:
        """When to call `take`; None while a request is in flight or nothing waits."""
        return None if self._in_flight or not self._ready else self._send_ms

    def submit(self, assignment: Assignment, now_ms: int) -> None:
        """Put an assignment in, in place of an older one of its partition."""
        self._ready[assignment.partition] = assignment
        if self._failures:
            time_ms = now_ms + self._backoff_ms()
        elif len(self._ready) > MAX_ASSIGNMENTS_PER_REQUEST:
            time_ms = now_ms
        else:
            time_ms = now_ms + LINGER_MS
        self._send_ms = time_ms if self._send_ms is None else min(self._send_ms, time_ms)

    def take(self, is_valid: Callable[[Assignment], bool]) -> tuple[Assignment, ...]:
        """Take what is to be sent now; it is in flight until `answered` or `failed`.

        Args:
            is_valid: Whether the replica still exists; the others are dropped silently.

        Returns:
            At most 2250 assignments, oldest first; empty if none of those was valid.
        """
        assert not self._in_flight
        self._is_outdated = False
        taken = list(self._ready.values())[:MAX_ASSIGNMENTS_PER_REQUEST]
        for assignment in taken:
            del self._ready[assignment.partition]
        self._in_flight = {each.partition: each for each in taken if is_valid(each)}
        # Assignments that did not fit have waited long enough.
        self._send_ms = 0 if self._ready else None
        return tuple(self._in_flight.values())

    def answered(
        self, results: Mapping[tuple[TopicIdPartition, DirectoryId], ErrorCode], now_ms: int
    ) -> tuple[Assignment, ...]:
        """Take in a response without a top-level error.

        Args:
            results: The code of each assignment; one that is missing was not accepted.
            now_ms: Now.

        Returns:
            The accepted assignments; their `on_accepted` is the caller's to call.
        """
        sent, self._in_flight = self._in_flight, {}
        self._failures = 0
        accepted: list[Assignment] = []
        refused: list[Assignment] = []
        for assignment in sent.values():
            code = results.get((assignment.partition, assignment.directory_id))
            (accepted if code is ErrorCode.NONE else refused).append(assignment)
        self._put_back(refused)
        if self._ready and self._send_ms is None:
            self._send_ms = now_ms + BACKOFF_MS
        return tuple(accepted)

    def failed(self, now_ms: int) -> None:
        """Take in that the request as a whole had no success."""
        sent, self._in_flight = self._in_flight, {}
        self._put_back(list(sent.values()))
        if self._is_outdated:
            self._send_ms = now_ms
            return
        self._send_ms = now_ms + self._backoff_ms()
        self._failures += 1

    def controller_found(self, now_ms: int) -> None:
        """Take in that another controller is active, which is asked without a pause."""
        self._failures = 0
        self._is_outdated = True
        if self._ready:
            self._send_ms = now_ms

    def _put_back(self, assignments: list[Assignment]) -> None:
        """Make assignments ready again, in front; a newer one of the same partition stays."""
        older = {each.partition: each for each in assignments}
        self._ready = older | self._ready

    def _backoff_ms(self) -> int:
        spread = 0.98 + 0.04 * self._random()
        return int(min(BACKOFF_MS * 2 ** min(self._failures, 16) * spread, BACKOFF_MS_MAX))
