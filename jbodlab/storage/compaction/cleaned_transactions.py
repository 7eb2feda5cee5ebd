"""Which batches of transactions a round of compaction may drop; it reads them in the log's order.

A round drops all records of an aborted transaction. A marker has no key that a newer record could
supersede: the round may drop it if it has read no batch of its transaction, as none is left then.
One `CleanedTransactions` covers all segments of a round, since transactions cross segment borders
(KAFKA-8351).

Source: `org.apache.kafka.storage.internals.log.CleanedTransactionMetadata`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from jbodlab.record_batch.record_batch import BatchHeader
from jbodlab.storage.log.transactions import ABORT, COMMIT, AbortedTransaction, Marker


class CleanedTransactions:
    """See the module's text.

    Args:
        aborted: All aborted transactions that may have batches in the cleaned segments, also those
            with markers behind these segments (KAFKA-13727).
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._coming = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._coming)
        self._aborting: dict[int, AbortedTransaction] = {}
        self._met: set[int] = set()
        """Producers of whose running transaction a batch was met."""
        self._kept: list[AbortedTransaction] = []

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether a batch of records belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        self._met.add(header.producer_id)
        return header.producer_id in self._aborting

    def may_drop(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Return whether a control batch is a marker for no remaining batch.

        Args:
            header: Header of the control batch.
            marker: Its marker; None if an earlier round has emptied the batch.
        """
        self._begin_up_to(header.last_offset)
        if marker is None:
            return True
        if marker.type not in (ABORT, COMMIT):
            return False
        was_met = header.producer_id in self._met
        self._met.discard(header.producer_id)
        if marker.type == ABORT:
            entry = self._aborting.pop(header.producer_id, None)
            if entry is not None and was_met:
                self._kept.append(entry)
        return not was_met

    def take_kept(self) -> list[AbortedTransaction]:
        """Return the aborted transactions whose markers the round has read since the last call.

        A batch of each may remain, so they belong into the index of the segment with the marker.
        """
        kept, self._kept = self._kept, []
        return kept

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, entry = heapq.heappop(self._coming)
            self._aborting.setdefault(entry.producer_id, entry)
