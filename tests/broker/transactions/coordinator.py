"""A transaction coordinator without a log: what it decides is appended, and committed when told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from broker.coordination.core import Ticket
from broker.transactions.decision import MarkersDue, TransactionDecision
from broker.transactions.requests import (
    AddPartitions,
    DescribedTransaction,
    DescribeTransactions,
    EndTransaction,
    FreshProducerIdNeeded,
    InitProducerId,
    VerifyPartitions,
)
from broker.transactions.settings import TransactionSettings
from broker.transactions.transaction import Transaction, TransactionState
from broker.transactions.transaction_core import TransactionCore
from jbodlab.transaction_records.records import TransactionRecord, decode, encode
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.producer import Producer

A, B, C = (TopicPartition("t", index) for index in range(3))
TIMEOUT_MS = 60_000
PENDING = "pending"
NOBODY = Producer(-1, -1)


class Coordinator:
    """Carries decisions out as the shell does.

    Attributes:
        log: Records in their order, encoded.
        due: Markers that are to be written.
        is_committing: Whether what is appended is committed at once.
        refuses: The error with which appends are refused, if they are.
    """

    def __init__(self, level: int = 2, **settings: int) -> None:
        self.level = level
        self.settings = TransactionSettings(**settings)
        self.core = TransactionCore(self.settings, lambda: self.level)
        self.now_ms = 1_000_000
        self.log: list[tuple[bytes, bytes | None]] = []
        self.due: list[MarkersDue] = []
        self.is_committing = True
        self.refuses: ErrorCode | None = None
        self.timers: dict[Any, int] = {}
        self._events: list[Any] = []
        self._answers: dict[Ticket, Any] = {}
        self._ticket = 0
        self._fresh = 1000

    # Requests

    def ask(self, request: Any) -> Any:
        """Return the answer, the error code of a refusal, or PENDING."""
        return self._asked(request)()

    def _asked(self, request: Any) -> Callable[[], Any]:
        """Ask; what is returned gives the answer that is there by then."""
        self._ticket += 1
        ticket = Ticket(self._ticket)
        self.carry_out(self.core.decide(request, ticket, self.now_ms))

        def answer() -> Any:
            found = self._answers.get(ticket, PENDING)
            return found.code if isinstance(found, KafkaError) else found

        return answer

    def init(
        self, producer: Producer = NOBODY, name: str = "x", timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        def request(fresh: int | None) -> InitProducerId:
            return InitProducerId(
                transactional_id=name,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                fresh_producer_id=fresh,
            )

        return self._with_fresh(request)

    def add(self, producer: Producer, *partitions: TopicPartition, version: int = 0) -> Any:
        return self.later(producer, *partitions, version=version)()

    def later(
        self, producer: Producer, *partitions: TopicPartition, version: int = 0
    ) -> Callable[[], Any]:
        """Add partitions; what is returned gives the answer by then, None if all are added."""
        wanted = partitions or (A,)
        asked = self._asked(
            AddPartitions(
                transactional_id="x",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                partitions=wanted,
                transaction_version=version,
            )
        )

        def answer() -> Any:
            found = asked()
            return None if found == dict.fromkeys(wanted, ErrorCode.NONE) else found

        return answer

    def verify(self, producer: Producer, *partitions: TopicPartition) -> Any:
        return self.verified_later(producer, *partitions)()

    def verified_later(self, producer: Producer, *partitions: TopicPartition) -> Callable[[], Any]:
        """Ask which partitions take part; what is returned gives the answer by then."""
        return self._asked(
            VerifyPartitions(
                transactional_id="x",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                partitions=partitions or (A,),
            )
        )

    def end(self, producer: Producer, *, commit: bool = True, version: int = 0) -> Any:
        def request(fresh: int | None) -> EndTransaction:
            return EndTransaction(
                transactional_id="x",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=commit,
                transaction_version=version,
                fresh_producer_id=fresh,
            )

        return self._with_fresh(request)

    def describe(self, name: str = "x") -> DescribedTransaction:
        (entry,) = self.ask(DescribeTransactions(transactional_ids=(name,)))
        assert isinstance(entry, DescribedTransaction)
        return entry

    def _with_fresh(self, request: Any) -> Any:
        answer = self.ask(request(None))
        if isinstance(answer, FreshProducerIdNeeded):
            self._fresh += 1
            answer = self.ask(request(self._fresh))
        return answer

    # State

    @property
    def transaction(self) -> Transaction:
        return self.core.tables.written["x"]

    @property
    def state(self) -> TransactionState:
        return self.transaction.state

    def set(self, **fields: Any) -> Transaction:
        """Let the log say something of "x"."""
        transaction = Transaction(
            **{
                "producer_id": 7,
                "previous_producer_id": 7,
                "producer_epoch": 5,
                "timeout_ms": TIMEOUT_MS,
                "updated_ms": self.now_ms,
                **fields,
            }
        )
        end = len(self.log) + 1
        self.log.append((b"", b""))
        self.core.tables.write(end, "x", transaction)
        if self.is_committing:
            self.commit()
        return transaction

    # Work of the shell

    def carry_out(self, decision: TransactionDecision) -> None:
        if decision.records and self.refuses is not None:
            error = KafkaError(self.refuses)
            for answer in decision.answers:
                self._answers[answer.ticket] = error
            if decision.event is not None:
                self.carry_out(self.core.refused(decision.event, error, self.now_ms))
            return
        base = len(self.log)
        self.log += map(encode, decision.records)
        self.core.apply(decision, base)
        for key, at_ms in decision.timers:
            if at_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = at_ms
        self.due += decision.effects
        self._events.append((len(self.log), decision.answers, decision.event))
        if self.is_committing or decision.at_once:
            self.commit()

    def commit(self) -> None:
        """Let the high watermark pass all that is in the log."""
        self.core.committed_up_to(len(self.log))
        events, self._events = self._events, []
        for _, answers, event in events:
            self._answers.update(answers)
            if event is not None:
                self.carry_out(self.core.committed(event, self.now_ms))

    def give_up_waiting(self) -> None:
        """Let the commit timeout of all that waits be over."""
        events, self._events = self._events, []
        for _, answers, event in events:
            error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._answers.update((answer.ticket, error) for answer in answers)
            if event is not None:
                self.carry_out(self.core.refused(event, error, self.now_ms))

    def wait(self, ms: int) -> None:
        """Let time go on, and timers fire."""
        end_ms = self.now_ms + ms
        while due := [key for key, at_ms in self.timers.items() if at_ms <= end_ms]:
            key = min(due, key=lambda each: self.timers[each])
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            decision = self.core.timer(key, self.now_ms)
            self.carry_out(decision)
            if decision.work is not None:
                found = decision.work.run()
                self.carry_out(self.core.worked(decision.work.event, found, self.now_ms))
        self.now_ms = end_ms

    def mark(self, *partitions: TopicPartition, due: MarkersDue | None = None) -> None:
        """Let partitions have their marker; all of the newest order if none is named."""
        due = due or self.due[-1]
        decision = self.core.markers_written(due, partitions or due.partitions, self.now_ms)
        self.carry_out(decision)

    def load(self) -> None:
        """Let the next coordinator load the log."""
        self.core = TransactionCore(self.settings, lambda: self.level)
        self.timers, self._events, self.due = {}, [], []
        for offset, (key, value) in enumerate(self.log):
            if key:
                self.core.replay(decode(key, value), offset, offset + 1)
        self.core.committed_up_to(len(self.log))
        self.carry_out(self.core.loaded(self.now_ms))

    def records(self) -> Iterable[TransactionRecord]:
        return [decode(key, value) for key, value in self.log if key]
