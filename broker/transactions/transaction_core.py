"""The transactions of one partition of `__transaction_state`, as pure decisions.

`broker.coordination.core.Core` is its contract. Nothing here waits, reads a clock or knows a
socket. Only this class changes its state.

A producer is answered when the decision how its transaction ends is committed. The markers follow;
they are never given up. Kafka drops the partitions of a transaction when a leader refuses the
epoch of a marker, and the transaction stays as it is until the coordinator is loaded anew.

A client adds partitions to its next transaction while the last one is being completed. Kafka tells
it to come again, which takes longer than the rest of a transaction, and may be fatal
(`broker.clients.client_behaviour`). Here it waits.

Source: `kafka.coordinator.transaction.TransactionCoordinator` and `TransactionStateManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, assert_never

from msgspec.structs import replace

from broker.coordination import core
from broker.coordination.core import Answer, Ticket, Timer, Work
from broker.transactions.decision import (
    NOTHING,
    Addition,
    Completed,
    Expired,
    ExpiryWork,
    MarkersDue,
    Prepared,
    TimedOut,
    TransactionChange,
    TransactionDecision,
    Unmarked,
    Waiting,
)
from broker.transactions.ending import ended, next_producer
from broker.transactions.producers import check_init, initialized
from broker.transactions.reading import described, listed
from broker.transactions.requests import (
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    FreshProducerIdNeeded,
    InitProducerId,
    ListTransactions,
    Request,
    VerifyPartitions,
)
from broker.transactions.settings import TransactionSettings
from broker.transactions.tables import TransactionTables
from broker.transactions.transaction import (
    COMPLETE,
    EPOCH_BUMP_FROM,
    NO_EPOCH,
    PREPARED,
    Transaction,
    TransactionState,
    completed,
    fenced,
    from_value,
    idle_id,
    to_record,
    with_partitions,
)
from broker.transactions.upkeep import OpenTimes, is_unused, markers_due, unused
from jbodlab.transaction_records.records import TransactionRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.producer import Producer

RETRY_MS = 500
"""Pause before a step is tried again whose record was refused."""
COMPLETION_WAIT_MS = 1_000
"""Longest wait of a client for the end of its transaction before."""
AT_ONCE_MAX = 500
"""Most transactions that one batch of the coordinator's own ends or takes away."""

APPEND_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    **core.APPEND_ERRORS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a failed append, as producers get them."""

COMMIT_TIMEOUT_MS = 5_000
"""Longest wait for the replicas of a record; the client asks again after that."""

TIMEOUTS, EXPIRY, MARKERS = ("timeouts",), ("expiry",), ("markers",)
"""Keys of timers: open transactions, unused ids and unwritten markers are looked through."""
WAITING = "waiting"
"""The first part of the key of a timer: a client has waited for too long; its id is the second."""


class TransactionCore:
    """Transactions with their producers.

    Args:
        settings: Of the broker.
        level: Returns the finalized transaction.version.
    """

    def __init__(self, settings: TransactionSettings, level: Callable[[], int]) -> None:
        self._settings = settings
        self._level = level
        self._tables = TransactionTables()
        self._open = OpenTimes()
        self._unmarked: dict[str, tuple[TopicPartition, ...]] = {}
        """The partitions that lack their marker, of those whose markers are being written."""
        self._waiting: dict[str, Addition] = {}
        """Additions to a client's next transaction, by the id of one that is being completed."""

    @property
    def tables(self) -> TransactionTables:
        """All written rows, and how much of them is committed."""
        return self._tables

    # Requests

    def decide(self, request: Request, ticket: Ticket, now_ms: int) -> TransactionDecision:
        """Decide on a request; the answer to it may come with another decision."""
        try:
            return self._decide(request, ticket, now_ms)
        except KafkaError as error:
            return TransactionDecision(answers=(Answer(ticket, error),))

    def _decide(self, request: Request, ticket: Ticket, now_ms: int) -> TransactionDecision:
        match request:
            case InitProducerId():
                return self._init(request, ticket, now_ms)
            case AddPartitions():
                return self._add(request, ticket, now_ms)
            case VerifyPartitions():
                return _at_once(ticket, self._verified(request))
            case EndTransaction():
                return self._end(request, ticket, now_ms)
            case DescribeTransactions(transactional_ids=ids):
                committed = self._tables.committed
                return _at_once(
                    ticket, tuple(described(i, committed(i), self._unmarked.get(i)) for i in ids)
                )
            case ListTransactions():
                return _at_once(ticket, listed(request, self._tables.all_committed(), now_ms))
            case _:
                assert_never(request)

    def _init(self, request: InitProducerId, ticket: Ticket, now_ms: int) -> TransactionDecision:
        check_init(request, self._settings.transaction_max_timeout_ms)
        name = request.transactional_id
        before, is_pending = self._tables.written.get(name), self._tables.is_pending(name)
        after = initialized(request, before, is_pending, self._level(), now_ms)
        if isinstance(after, FreshProducerIdNeeded):
            return _at_once(ticket, after)
        if after.state in PREPARED:
            # The client repeats, and is given the epoch after this one.
            answer: Any = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
            return self._written(name, after, Answer(ticket, answer), Prepared())
        return self._written(name, after, Answer(ticket, after.producer))

    def _add(self, request: AddPartitions, ticket: Ticket, now_ms: int) -> TransactionDecision:
        name = _checked(request.transactional_id)
        # Leaders of partitions ask for many transactions at once, and come again by themselves.
        if request.transaction_version < EPOCH_BUMP_FROM and self._is_being_completed(name):
            before = self._waiting.get(name)
            return TransactionDecision(
                waiting=(Waiting(name, Addition(ticket, request)),),
                answers=() if before is None else (Answer(before.ticket, _concurrent()),),
                timers=(Timer((WAITING, name), now_ms + COMPLETION_WAIT_MS),),
                at_once=True,
            )
        return self._added(request, ticket, now_ms)

    def _is_being_completed(self, name: str) -> bool:
        """Return whether it will be told soon that the transaction of an id is completed."""
        found = self._tables.written.get(name)
        return found is not None and (
            found.state in PREPARED or (found.state in COMPLETE and self._tables.is_pending(name))
        )

    def _go_on(self, names: Iterable[str], now_ms: int) -> TransactionDecision:
        """Decide on what has waited for the end of transactions."""
        waiting = {name: self._waiting[name] for name in names if name in self._waiting}
        if not waiting:
            return NOTHING
        decisions = []
        for ticket, request in waiting.values():
            try:
                decisions.append(self._added(request, ticket, now_ms))
            except KafkaError as error:
                decisions.append(TransactionDecision(answers=(Answer(ticket, error),)))
        return TransactionDecision(
            records=tuple(record for each in decisions for record in each.records),
            changes=tuple(change for each in decisions for change in each.changes),
            answers=tuple(answer for each in decisions for answer in each.answers),
            waiting=tuple(Waiting(name, None) for name in waiting),
            timers=tuple(Timer((WAITING, name), None) for name in waiting),
        )

    def _waited(self, name: str) -> TransactionDecision:
        """Decide on a client that has waited for too long."""
        if name not in self._waiting:
            return NOTHING
        return TransactionDecision(
            waiting=(Waiting(name, None),),
            answers=(Answer(self._waiting[name].ticket, _concurrent()),),
            at_once=True,
        )

    def _added(self, request: AddPartitions, ticket: Ticket, now_ms: int) -> TransactionDecision:
        name = request.transactional_id
        before, is_pending = self._tables.written.get(name), self._tables.is_pending(name)
        if is_pending or (before is not None and before.state in PREPARED):
            raise _concurrent()
        before = _of_producer(before, request)
        codes = dict.fromkeys(request.partitions, ErrorCode.NONE)
        is_open = before.state is TransactionState.ONGOING
        if is_open and set(before.partitions).issuperset(request.partitions):
            return _at_once(ticket, codes)
        after = with_partitions(before, request.partitions, request.transaction_version, now_ms)
        return self._written(name, after, Answer(ticket, codes))

    def _verified(self, request: VerifyPartitions) -> Mapping[TopicPartition, ErrorCode]:
        name = _checked(request.transactional_id)
        found, written = self._tables.committed(name), self._tables.written.get(name)
        # The leader before may have acknowledged records above our high watermark, for a moment.
        is_pending = written is not found
        if is_pending and _taking_part(written, request) - _taking_part(found, request):
            raise _concurrent()
        found = _of_producer(found, request)
        if found.state in PREPARED:
            raise _concurrent()
        taking_part = set(found.partitions)
        return {
            each: ErrorCode.NONE if each in taking_part else ErrorCode.TRANSACTION_ABORTABLE
            for each in request.partitions
        }

    def _end(self, request: EndTransaction, ticket: Ticket, now_ms: int) -> TransactionDecision:
        name = _checked(request.transactional_id)
        before = self._tables.written.get(name)
        after = ended(request, before, self._tables.is_pending(name), now_ms)
        if not isinstance(after, Transaction):
            return _at_once(ticket, after)
        return self._written(name, after, Answer(ticket, next_producer(after)), Prepared())

    def _written(
        self, name: str, after: Transaction, answer: Answer, event: Prepared | None = None
    ) -> TransactionDecision:
        return self._writing([TransactionChange(name, after)], answers=(answer,), event=event)

    def _writing(self, changes: Iterable[TransactionChange], **fields: Any) -> TransactionDecision:
        """Return the decision to write the next states of transactional ids."""
        changes, level = tuple(changes), self._level()
        records = tuple(to_record(*change, level) for change in changes)
        return TransactionDecision(records=records, changes=changes, **fields)

    # Markers

    def markers_written(
        self, due: MarkersDue, partitions: Iterable[TopicPartition], now_ms: int
    ) -> TransactionDecision:
        """Decide on partitions that have their marker, or are no more."""
        name = due.transactional_id
        transaction, unmarked = self._tables.written.get(name), self._unmarked.get(name)
        if transaction is None or unmarked is None:
            return NOTHING
        if due != markers_due(name, transaction, due.partitions):
            return NOTHING
        gone = set(partitions)
        left = tuple(each for each in unmarked if each not in gone)
        if left:
            return TransactionDecision(unmarked=(Unmarked(name, left),))
        return self._complete([name], now_ms)

    def _begin_markers(self, now_ms: int) -> TransactionDecision:
        """Have the markers written of all transactions whose end is committed."""
        tables = self._tables
        names = [
            name
            for name in tables.prepared
            if name not in self._unmarked and not tables.is_pending(name)
        ]
        due = {name: tables.written[name].partitions for name in names}
        empty = [name for name, partitions in due.items() if not partitions]
        return replace(
            self._complete(empty[:AT_ONCE_MAX], now_ms),
            unmarked=tuple(Unmarked(name, partitions) for name, partitions in due.items()),
            effects=tuple(
                markers_due(name, tables.written[name], partitions)
                for name, partitions in due.items()
                if partitions
            ),
            timers=(Timer(MARKERS, now_ms),) if len(empty) > AT_ONCE_MAX else (),
        )

    def _complete(self, names: Sequence[str], now_ms: int) -> TransactionDecision:
        """End transactions of which all markers are written."""
        if not names:
            return NOTHING
        return self._writing(
            (
                TransactionChange(name, completed(self._tables.written[name], now_ms))
                for name in names
            ),
            event=Completed(transactional_ids=tuple(names)),
        )

    # Events

    def loaded(self, now_ms: int) -> TransactionDecision:
        """Decide on what begins when the end of the log is reached: markers are written again."""
        return TransactionDecision(
            event=Prepared(),
            timers=(
                Timer(TIMEOUTS, now_ms),
                Timer(EXPIRY, now_ms + self._expiry_interval_ms),
            ),
        )

    def committed(self, event: Any, now_ms: int) -> TransactionDecision:
        """Decide on what follows when the records of an event are committed."""
        match event:
            case Prepared() | TimedOut():
                return self._begin_markers(now_ms)
            case Expired(transactional_ids=ids):
                return self._expire(ids, now_ms)
            case Completed(transactional_ids=ids):
                return self._go_on(ids, now_ms)
            case ExpiryWork():
                return NOTHING
            case _:
                raise AssertionError(event)

    def refused(self, event: Any, error: KafkaError, now_ms: int) -> TransactionDecision:
        """Decide on what follows when records are not written, or not committed in time.

        A decision that was not committed in time is written nevertheless, so what follows from it
        is looked for until it is committed.
        """
        match event:
            case Prepared():
                return TransactionDecision(timers=(Timer(MARKERS, now_ms + RETRY_MS),))
            case TimedOut():
                return TransactionDecision(
                    timers=(
                        Timer(MARKERS, now_ms + RETRY_MS),
                        Timer(TIMEOUTS, now_ms + RETRY_MS),
                    )
                )
            case Completed(transactional_ids=ids):
                return TransactionDecision(
                    unmarked=tuple(Unmarked(each, ()) for each in ids),
                    timers=(Timer(MARKERS, now_ms + RETRY_MS),),
                )
            case Expired() | ExpiryWork():
                return NOTHING
            case _:
                raise AssertionError(event)

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> TransactionDecision:
        """Decide on what happens when a time is over."""
        match key:
            case ("timeouts",):
                return self._time_out(now_ms)
            case ("markers",):
                return self._look_for_markers(now_ms)
            case ("expiry",):
                before_ms = now_ms - self._settings.transactional_id_expiration_ms
                return TransactionDecision(
                    timers=(Timer(EXPIRY, now_ms + self._expiry_interval_ms),),
                    work=Work(
                        ExpiryWork(), partial(unused, self._tables.written.snapshot(), before_ms)
                    ),
                )
            case (_, str(name)):
                return self._waited(name)
            case _:
                raise AssertionError(key)

    def worked(self, event: Any, result: Any, now_ms: int) -> TransactionDecision:
        """Decide on ids that had expired when they were looked for."""
        return self._expire(result or (), now_ms)

    def connection_closed(self, ticket: Ticket, now_ms: int) -> TransactionDecision:
        """Decide on a client that hung up; what it wanted is done all the same."""
        return NOTHING

    def _time_out(self, now_ms: int) -> TransactionDecision:
        """Abort the open transactions that take too long."""
        tables, level = self._tables, self._level()
        ongoing = ((name, tables.written[name]) for name in tables.ongoing)
        late = [name for name in self._open.late(ongoing, now_ms) if not tables.is_pending(name)]
        interval_ms = self._settings.transaction_abort_timed_out_transaction_cleanup_interval_ms
        again_ms = now_ms if len(late) > AT_ONCE_MAX else now_ms + interval_ms
        return self._writing(
            (
                TransactionChange(name, fenced(tables.written[name], NO_EPOCH, level, now_ms))
                for name in late[:AT_ONCE_MAX]
            ),
            event=TimedOut() if late else None,
            timers=(Timer(TIMEOUTS, again_ms),),
        )

    def _look_for_markers(self, now_ms: int) -> TransactionDecision:
        """Go on with prepared transactions of which a step was refused."""
        tables = self._tables
        ready = [
            name
            for name in tables.prepared
            if self._unmarked.get(name) == () and not tables.is_pending(name)
        ]
        if ready:
            # The others are next.
            return replace(
                self._complete(ready[:AT_ONCE_MAX], now_ms), timers=(Timer(MARKERS, now_ms),)
            )
        decision = self._begin_markers(now_ms)
        if decision.timers or not any(map(tables.is_pending, tables.prepared)):
            return decision
        return replace(decision, timers=(Timer(MARKERS, now_ms + RETRY_MS),))

    def _expire(self, ids: Iterable[str], now_ms: int) -> TransactionDecision:
        """Take ids away that are still unused."""
        before_ms = now_ms - self._settings.transactional_id_expiration_ms
        written = self._tables.written
        left = iter(ids)
        expired = [
            name
            for name in islice(left, AT_ONCE_MAX)
            if name in written
            and is_unused(written[name], before_ms)
            and not self._tables.is_pending(name)
        ]
        rest = tuple(left)
        return self._writing(
            (TransactionChange(name, None) for name in expired),
            event=Expired(transactional_ids=rest) if rest else None,
        )

    @property
    def _expiry_interval_ms(self) -> int:
        return self._settings.transaction_remove_expired_transaction_cleanup_interval_ms

    # State

    def apply(self, decision: Any, base_offset: int = -1) -> None:
        """Change the state as a decision says; its records, if any, are in the log from there."""
        end_offset = base_offset + len(decision.records)
        for name, transaction in decision.changes:
            self._write(end_offset, name, transaction)
        for name, partitions in decision.unmarked:
            if name in self._tables.prepared:
                self._unmarked[name] = partitions
        for name, addition in decision.waiting:
            if addition is None:
                self._waiting.pop(name, None)
            else:
                self._waiting[name] = addition

    def replay_bytes(self, key: bytes, value: bytes | None) -> bool:
        """Take an idle transaction as it is in the log; most are, and few are ever asked for."""
        name = idle_id(key, value)
        if name is None or value is None:
            return False
        self._tables.write_idle(name, value)
        self._unmarked.pop(name, None)
        return True

    def replay(
        self,
        record: TransactionRecord,
        offset: int,
        end_offset: int,
        producer_id: int | None = None,
    ) -> None:
        """Change the tables as a record of the log says; none belongs to a transaction."""
        value = record.value
        self._write(
            end_offset, record.key.transactional_id, None if value is None else from_value(value)
        )

    def _write(self, end_offset: int, name: str, transaction: Transaction | None) -> None:
        self._tables.write(end_offset, name, transaction)
        if name not in self._tables.prepared:
            self._unmarked.pop(name, None)

    def end_transaction(self, producer: Producer, commit: bool, end_offset: int) -> None:
        """Refuse a marker: there are no transactions in this topic."""
        raise AssertionError(producer)

    def committed_up_to(self, offset: int) -> None:
        """Take over how far the high watermark is; readers may hear of what is below."""
        self._tables.committed_up_to(offset)


def _checked(transactional_id: str) -> str:
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the transactional id is empty")
    return transactional_id


def _concurrent() -> KafkaError:
    return KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _of_producer(
    found: Transaction | None, request: AddPartitions | VerifyPartitions
) -> Transaction:
    """Return a transaction; raises KafkaError unless it is of the producer that asks."""
    if found is None or found.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if found.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return found


def _taking_part(found: Transaction | None, request: VerifyPartitions) -> set[TopicPartition]:
    """Return which of the partitions are in a transaction that its producer may go on with."""
    if found is None or found.state in PREPARED:
        return set()
    is_of_producer = (found.producer_id, found.producer_epoch) == (
        request.producer_id,
        request.producer_epoch,
    )
    return set(found.partitions).intersection(request.partitions) if is_of_producer else set()


def _at_once(ticket: Ticket, answer: Any) -> TransactionDecision:
    return TransactionDecision(answers=(Answer(ticket, answer),), at_once=True)
