"""The transactions of a shard: what is written, and what of it is committed.

Decisions read what is written, readers hear what is committed. A transactional id of which the two
differ has a transition that is pending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain

from broker.transactions.transaction import PREPARED, Transaction, TransactionState, from_idle
from jbodlab.vocabulary.large_dict import LargeDict


class WrittenTransactions(Mapping[str, Transaction]):
    """Transactions by transactional id.

    Of most ids of a long log nobody asks for hours: what a load has left as it was read becomes a
    transaction when it is first asked for.
    """

    def __init__(self) -> None:
        self._entries: LargeDict[str, Transaction | bytes] = LargeDict()

    def __getitem__(self, transactional_id: str) -> Transaction:
        found = self._entries[transactional_id]
        if isinstance(found, bytes):
            found = self._entries[transactional_id] = from_idle(found)
        return found

    def __contains__(self, transactional_id: object) -> bool:
        return transactional_id in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, transactional_id: str, value: Transaction | bytes | None) -> None:
        """Take a transaction, or the bytes of one that is idle; None takes the id away."""
        if value is None:
            self._entries.pop(transactional_id, None)
        else:
            self._entries[transactional_id] = value

    def snapshot(self) -> Iterator[tuple[str, Transaction]]:
        """Return all as they are now; any thread may iterate, and idle ones stay as bytes."""
        entries = self._entries.copy()
        return (
            (transactional_id, from_idle(each) if isinstance(each, bytes) else each)
            for transactional_id, each in entries.items()
        )


class TransactionTables:
    """Transactions by transactional id; only `TransactionCore` changes them.

    Attributes:
        written: The transactions, as is written.
        ongoing: Ids whose transaction is open, as is written.
        prepared: Ids whose markers are being written, as is written.
    """

    def __init__(self) -> None:
        self.written = WrittenTransactions()
        self.ongoing: dict[str, None] = {}
        self.prepared: dict[str, None] = {}
        self._pending: deque[tuple[int, str, Transaction | None]] = deque()
        self._committed_to = -1
        self._former: dict[str, Transaction | None] = {}
        """The committed states of the ids whose last transition is not committed yet."""

    def is_pending(self, transactional_id: str) -> bool:
        """Return whether the last transition of an id is not committed yet."""
        return transactional_id in self._former

    def committed(self, transactional_id: str) -> Transaction | None:
        """Return what is committed of an id."""
        if transactional_id in self._former:
            return self._former[transactional_id]
        return self.written.get(transactional_id)

    def all_committed(self) -> Iterator[tuple[str, Transaction]]:
        """Return each id with what is committed of it now; idle transactions stay as bytes."""
        former = self._former.copy()
        # Those that only a reader knows: their tombstones are not committed.
        gone = [each for each in former.items() if each[0] not in self.written]
        written = ((name, former.get(name, each)) for name, each in self.written.snapshot())
        return ((name, each) for name, each in chain(written, gone) if each is not None)

    def write(self, end_offset: int, transactional_id: str, value: Transaction | None) -> None:
        """Take a record that was appended, or read at the load.

        Args:
            end_offset: Offset behind its batch.
            transactional_id: Whose it is.
            value: The record's value; None takes the id away.
        """
        assert not self._pending or self._pending[-1][0] <= end_offset
        if end_offset > self._committed_to:
            self._former.setdefault(transactional_id, self.written.get(transactional_id))
            self._pending.append((end_offset, transactional_id, value))
        self.written.put(transactional_id, value)
        state = None if value is None else value.state
        _mark(self.ongoing, transactional_id, state is TransactionState.ONGOING)
        _mark(self.prepared, transactional_id, state in PREPARED)

    def write_idle(self, transactional_id: str, value: bytes) -> None:
        """Take a record of a transaction that is idle, read at the load, and committed."""
        self.written.put(transactional_id, value)
        self.ongoing.pop(transactional_id, None)
        self.prepared.pop(transactional_id, None)

    def committed_up_to(self, offset: int) -> None:
        """Let readers see the records whose batches end at an offset or before."""
        self._committed_to = max(offset, self._committed_to)
        while self._pending and self._pending[0][0] <= offset:
            _, transactional_id, value = self._pending.popleft()
            if value is self.written.get(transactional_id):
                self._former.pop(transactional_id, None)
            else:
                self._former[transactional_id] = value


def _mark(index: dict[str, None], transactional_id: str, is_in: bool) -> None:
    if is_in:
        index[transactional_id] = None
    else:
        index.pop(transactional_id, None)
