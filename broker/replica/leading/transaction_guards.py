"""Which transactions are known to have this partition, though no batch of theirs is in the log.

Before the first batch of a transaction the leader asks the coordinator whether the transaction has
the partition (KIP-890). A *guard* is one such question. A marker of the producer ends its
guard: a batch that was sent before the marker cannot open the next transaction, which nobody would
end (KAFKA-12671). Guards belong to one leadership; the next leader asks again.

Source: `org.apache.kafka.storage.internals.log.VerificationGuard`, `VerificationStateEntry`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


class Guard(msgspec.Struct, eq=False, kw_only=True):
    """A question to the coordinator about one producer, and who waits for the answer.

    Attributes:
        answer: The coordinator's answer; None as long as it is asked.
        is_ended: Whether a marker of the producer came after the question.
    """

    producer_epoch: int
    answer: ErrorCode | None = None
    is_ended: bool = False
    waiting: list[Callable[[], None]] = msgspec.field(default_factory=list)


class TransactionGuards:
    """The guards of one leadership, one for each producer at most."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, Guard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def of(self, producer_id: int, producer_epoch: int) -> Guard | None:
        """Return the guard of a producer in an epoch."""
        guard = self._guards.get(producer_id)
        return guard if guard is not None and guard.producer_epoch == producer_epoch else None

    def begin(self, producer_id: int, guard: Guard) -> None:
        """Begin a question; the one of an earlier epoch counts no longer.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH, there is one of a later epoch.
        """
        known = self._guards.get(producer_id)
        if known is not None and known.producer_epoch > guard.producer_epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"epoch of producer {producer_id} is {guard.producer_epoch}, which is smaller than "
                f"the last seen epoch {known.producer_epoch}",
            )
        guard.is_ended = False
        self._guards[producer_id] = guard

    def drop(self, producer_id: int, guard: Guard) -> None:
        """Forget a guard, if it still counts."""
        if self._guards.get(producer_id) is guard:
            del self._guards[producer_id]

    def marker_appended(self, producer_id: int) -> None:
        """End the guard of a producer: a marker is in the log."""
        guard = self._guards.pop(producer_id, None)
        if guard is not None:
            guard.is_ended = True
