"""Batches that a leader refused although they were valid, and the batches behind them.

An idempotent producer has up to five batches in flight. If the leader refuses one because the disk
is full or too few replicas are in sync, the batches behind it leave a gap in the sequence. The
leader caused this gap, and the next retry closes it. If these batches got
OUT_OF_ORDER_SEQUENCE_NUMBER, as in Apache Kafka, some clients would continue in a new producer
epoch and repeat all unacknowledged batches (`broker.clients.client_behaviour`); batches that were
written before the refused one would then be in the log twice. So the batches behind a refused one
are refused for the same reason.
"""

from __future__ import annotations

import msgspec

from jbodlab.record_batch.record_batch import MAX_SEQUENCE, BatchHeader
from jbodlab.storage.log.producer_state import BATCHES_REMEMBERED_MAX
from jbodlab.vocabulary.errors import KafkaError

BEHIND_MAX = BATCHES_REMEMBERED_MAX - 1
"""Of the batches that a producer has under way at most these stand behind a refused one."""


class Refused(msgspec.Struct):
    """A batch that its producer is expected to send again."""

    epoch: int
    sequence: int
    error: KafkaError
    behind: int = 0
    """Batches behind it that were refused like it."""


class RefusedBatches:
    """The first refused batch of each producer, until it comes again or is given up."""

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: dict[int, Refused] = {}
        """By producer id."""

    def refused(self, header: BatchHeader, error: KafkaError) -> None:
        """Take notice of a batch that was refused, and that is good as such."""
        if header.producer_id >= 0:
            self.first[header.producer_id] = Refused(
                header.producer_epoch, header.base_sequence, error
            )

    def check(self, header: BatchHeader) -> None:
        """Refuse a batch that stands behind a refused one; that one itself may be tried again.

        A producer that never sends the refused batch again has left a gap itself: behind as many
        batches as can have been under way it is forgotten.

        Raises:
            KafkaError: what the refused batch was told.
        """
        first = self.first.get(header.producer_id)
        if first is None:
            return
        ahead = (header.base_sequence - first.sequence) & MAX_SEQUENCE
        if first.epoch == header.producer_epoch and 0 < ahead <= MAX_SEQUENCE // 2:
            if first.behind < BEHIND_MAX:
                first.behind += 1
                raise KafkaError(first.error.code, first.error.message)
        elif first.epoch == header.producer_epoch and ahead:
            # A batch in front of it, sent again.
            return
        del self.first[header.producer_id]
