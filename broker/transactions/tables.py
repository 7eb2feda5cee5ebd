"""The transactions of a shard: what is written, and what of it is committed.

Decisions read what is written, readers hear what is committed. A transactional id of which the two
differ has a transition that is pending.
"""

from __future__ import annotations

from collections import deque

from broker.transactions.transaction import PREPARED, Transaction, TransactionState


class TransactionTables:
    """Transactions by transactional id; only `TransactionCore` changes them.

    Attributes:
        ongoing: Ids whose transaction is open, as is written.
        prepared: Ids whose markers are being written, as is written.
    """

    def __init__(self) -> None:
        self.written: dict[str, Transaction] = {}
        self.committed: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        self.prepared: dict[str, None] = {}
        self._pending: deque[tuple[int, str, Transaction | None]] = deque()

    def is_pending(self, transactional_id: str) -> bool:
        """Return whether the last transition of an id is not committed yet."""
        written = self.written.get(transactional_id)
        return written is not self.committed.get(transactional_id)

    def write(self, end_offset: int, transactional_id: str, value: Transaction | None) -> None:
        """Take a record that was appended, or read at the load.

        Args:
            end_offset: Offset behind its batch.
            transactional_id: Whose it is.
            value: The record's value; None takes the id away.
        """
        assert not self._pending or self._pending[-1][0] <= end_offset
        _set(self.written, transactional_id, value)
        state = None if value is None else value.state
        _mark(self.ongoing, transactional_id, state is TransactionState.ONGOING)
        _mark(self.prepared, transactional_id, state in PREPARED)
        self._pending.append((end_offset, transactional_id, value))

    def committed_up_to(self, offset: int) -> None:
        """Let readers see the records whose batches end at an offset or before."""
        while self._pending and self._pending[0][0] <= offset:
            _, transactional_id, value = self._pending.popleft()
            _set(self.committed, transactional_id, value)


def _set(table: dict[str, Transaction], transactional_id: str, value: Transaction | None) -> None:
    if value is None:
        table.pop(transactional_id, None)
    else:
        table[transactional_id] = value


def _mark(index: dict[str, None], transactional_id: str, is_in: bool) -> None:
    if is_in:
        index[transactional_id] = None
    else:
        index.pop(transactional_id, None)
