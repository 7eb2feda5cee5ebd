"""The contract between a replicated state machine and the shell that runs it.

A *core* is the state machine of one partition: pure, without a clock, a socket or a log. The shell
(`shard.Shard`) asks it for decisions and carries each one out in this order, without letting
anything else run in between: check that the log takes `records` as one batch; append them; hand
the decision with the offset of its first record to `Core.apply`; set `timers`; start `work`; hand
`effects` to the part of the broker that carries them out. When
the high watermark passes the batch, the shell calls `Core.committed_up_to`, sends `answers`, and
hands `event` to `Core.committed`. A decision without records is applied at once, and its answers
and event wait for the newest batch of the shard that is pending then: no client gets a state that
may vanish. After a load that is the end of the loaded log: below `min.insync.replicas` a read times
out as well. Answers that read committed state need no such wait (`at_once`).

If the log refuses the batch, the shell does not apply the decision. It answers the ticket of the
request, if that is among the answers, with the mapped error, and hands `event` to
`Core.refused`. When a batch is not committed within the commit timeout it answers all tickets of
the decision so, and hands over the event; what was applied stays.

Source: `org.apache.kafka.coordinator.common.runtime.CoordinatorShard`, `CoordinatorResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, NamedTuple, NewType, Protocol, TypeVar

import msgspec

from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer

APPEND_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Errors of a failed append, as clients of every coordinator get them.

Clients treat a partition error in such a response as fatal, so they must never get one.
"""

Record = TypeVar("Record")

Ticket = NewType("Ticket", int)
"""Names a request that is owed an answer; the shell gives it out, each once."""


class Answer(NamedTuple):
    """A response to a request."""

    ticket: Ticket
    response: Any
    """A frozen value of the core, or a `KafkaError`; the API handler makes the message of it."""


class Timer(NamedTuple):
    """A time at which the shell calls `Core.timer`; a new time for a key replaces the old one."""

    key: tuple[Hashable, ...]
    at_ms: int | None
    """Wall clock, which may be in the past; None takes the timer away."""


class Work(NamedTuple):
    """A computation that would block the event loop; the shell runs it on a thread once applied."""

    event: Any
    """Handed to `Core.worked` with the result."""
    run: Callable[[], Any]
    """A pure function of frozen values."""


class Decision(msgspec.Struct, Generic[Record], frozen=True, kw_only=True):
    """The consequences of one event; a ticket that is in no answer stays parked.

    A core that also changes state without records declares a subclass with fields for it.
    """

    records: tuple[Record, ...] = ()
    producer: Producer | None = None
    """The producer whose open transaction has the records; None for records without one."""
    answers: tuple[Answer, ...] = ()
    timers: tuple[Timer, ...] = ()
    event: Any = None
    """Handed back when the records are committed or refused."""
    work: Work | None = None
    effects: tuple[Any, ...] = ()
    """Tasks for other parts of the broker once applied; a load starts all of them again."""
    at_once: bool = False
    """Whether the answers wait for nothing; such a decision has no records and no event."""


class RecordCodec(Protocol[Record]):
    """The format of records; a module with these two functions is one."""

    def encode(self, record: Record, /) -> tuple[bytes, bytes | None]:
        """Return key and value of a record; a value of None is a tombstone."""
        ...

    def decode(self, key: bytes, value: bytes | None, /) -> Record:
        """Return the record of a key and a value.

        Raises:
            UnknownRecordTypeError: loading leaves the record out.
            DecodeError: the log cannot be loaded.
        """
        ...


class Core(Protocol[Record]):
    """The state machine of one partition, in one leadership; only its methods change its state.

    `now_ms` is the wall clock. A shard that stops to lead throws its core away.
    """

    def decide(self, request: Any, ticket: Ticket, now_ms: int) -> Decision[Record]:
        """Decide on a request; the answer to it may come with another decision."""
        ...

    def apply(self, decision: Any, base_offset: int = -1) -> None:
        """Change the state as a decision says; its records, if any, are in the log from there."""
        ...

    def replay_bytes(self, key: bytes, value: bytes | None) -> bool:
        """Change the state as a committed record of the log says, perhaps without decoding it.

        Args:
            key: Of a record of no transaction.
            value: Its value.

        Returns:
            Whether the state has changed; else the record is to be decoded for `replay`, which says
            what is wrong with it, too.
        """
        ...

    def replay(
        self, record: Record, offset: int, end_offset: int, producer_id: int | None = None
    ) -> None:
        """Change the state as a loaded record says.

        Args:
            record: Of a data batch.
            offset: Its offset.
            end_offset: Offset behind its batch.
            producer_id: Of the open transaction that it belongs to; None for no transaction.
        """
        ...

    def end_transaction(self, producer: Producer, commit: bool, end_offset: int) -> None:
        """Let the records of an open transaction count, or drop them.

        Args:
            producer: Whose transaction has ended.
            commit: Whether it is committed; else it is aborted.
            end_offset: Offset behind its marker.
        """
        ...

    def committed_up_to(self, offset: int) -> None:
        """Let readers see the state below the high watermark."""
        ...

    def loaded(self, now_ms: int) -> Decision[Record]:
        """Decide on what begins when the log is loaded."""
        ...

    def committed(self, event: Any, now_ms: int) -> Decision[Record]:
        """Decide on what follows when the records of an event are committed."""
        ...

    def refused(self, event: Any, error: KafkaError, now_ms: int) -> Decision[Record]:
        """Decide on what follows when records are not written, or not committed in time.

        Args:
            event: Of the decision that the records belong to.
            error: The error that clients get.
            now_ms: Wall clock.
        """
        ...

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> Decision[Record]:
        """Decide on what happens when a time is over."""
        ...

    def worked(self, event: Any, result: Any, now_ms: int) -> Decision[Record]:
        """Decide on what `Work` computed while the shard went on; None if it failed."""
        ...

    def connection_closed(self, ticket: Ticket, now_ms: int) -> Decision[Record]:
        """Decide on a client that hung up while its request was parked."""
        ...
