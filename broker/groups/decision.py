"""What a coordinator's shard decides on one event: records to write, answers, timers.

The shell carries a decision out in this order, without letting anything else run in between:
check that the log takes `records` as one batch; append them; hand the decision with the offset of
its first record to `GroupShard.apply`; set `timers`; start `work`. When the high watermark passes
the batch it calls `GroupShard.committed_up_to`, sends `answers`, and hands `event` to
`GroupShard.committed`. A decision without records is applied at once, and its answers and event
wait for the newest batch of the shard that is pending then: nobody hears of a state that may
vanish. `at_once` does away with that wait, for what is read from the committed table.

Where the log refuses the batch nothing is changed: the decision is not applied. The shell answers
the ticket of the request, if it is among the answers, with the mapped error, and hands `event` to
`GroupShard.refused`. When a batch is not committed within `offsets.commit.timeout.ms` it answers
all tickets of the decision so, and hands over the event; what was applied stays.

Source: `org.apache.kafka.coordinator.common.runtime.CoordinatorResult`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, NewType

import msgspec

from jbodlab.group_records.records import GroupRecord

Ticket = NewType("Ticket", int)
"""Names a request that is owed an answer; the shell gives it out, each once."""


class Answer(NamedTuple):
    """What is told to whom."""

    ticket: Ticket
    response: Any
    """A frozen value of the core, or a `KafkaError`; the API handler makes the message of it."""


class Timer(NamedTuple):
    """When a thing is to be looked at again; one for each key, a new time replaces the old."""

    key: tuple[Hashable, ...]
    at_ms: int | None
    """Wall clock, which may be in the past; None takes the timer away."""


class Work(NamedTuple):
    """What takes too long for the event loop: the shell runs it beside that, once it is applied."""

    event: Any
    """Handed to `GroupShard.worked` with the result."""
    run: Callable[[], Any]
    """A pure function of frozen values."""


class SoftChange(NamedTuple):
    """A change of what has no record: parked requests, pending joiners, a rebalance."""

    key: tuple[Hashable, ...]
    value: Any
    """A frozen value; None takes the entry away."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from one event; a ticket that is in no answer stays parked."""

    records: tuple[GroupRecord, ...] = ()
    answers: tuple[Answer, ...] = ()
    soft: tuple[SoftChange, ...] = ()
    timers: tuple[Timer, ...] = ()
    event: Any = None
    """Handed back when the records are committed or refused."""
    work: Work | None = None
    at_once: bool = False
    """Whether the answers wait for nothing; such a decision has no records and no event."""


NOTHING = Decision()

TIMER_RETRY_MS = 500


class TimerRefused(msgspec.Struct, frozen=True, kw_only=True):
    """An event: what followed from a timer was to be written, and is tried again if refused."""

    key: tuple[Hashable, ...]
    retry_ms: int = TIMER_RETRY_MS
    """After which time."""
