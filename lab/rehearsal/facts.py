"""Facts that a run leaves behind: events on one clock, records of clients, outcomes of faults.

All times are nanoseconds of the monotonic clock, which every process of a machine shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from fault_injection.clients import Clients
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from lab.findings import Finding
from lab.watch.events import Event, Sample

NOT_ANSWERED = -1
"""`done_ns` of a message without an answer."""


class Sent(NamedTuple):
    """A message of a producer; `due_ns` is its time by the schedule, whenever it was sent."""

    due_ns: int
    sent_ns: int
    done_ns: int
    sequence: int
    offset: int
    partition: int
    key: int
    error: int

    @property
    def is_acked(self) -> bool:
        """Whether the cluster has acknowledged it, or has committed its transaction."""
        return self.done_ns >= 0 and self.error == 0

    @property
    def identity(self) -> tuple[int, int]:
        """The identity that its two records have in common."""
        return self.key, self.sequence


class Outcome(IntEnum):
    """How a transaction was answered: with success, as aborted, or not at all."""

    COMMITTED = 0
    ABORTED = 1
    UNKNOWN = 2


class Transaction(NamedTuple):
    """A transaction of a producer: the messages of its schedule from `first` on, so many.

    Its commit was asked for at `asked_ns`. `is_fatal`: the producer could not go on and was made
    anew.
    """

    begun_ns: int
    asked_ns: int
    done_ns: int
    first: int
    messages: int
    outcome: int
    error: int
    is_fatal: bool

    @property
    def identity(self) -> int:
        """The identity that its two records have in common."""
        return self.first


class Received(NamedTuple):
    """A message that a consumer was given; the key tells the producer as well."""

    at_ns: int
    sequence: int
    offset: int
    partition: int
    key: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many messages were acknowledged and read, and how many of them went wrong in which way.

    Attributes:
        unread: Acknowledged messages of partitions that could not be read to their ends.
    """

    acknowledged: int
    read: int
    lost: int
    unread: int = 0
    duplicated: int
    out_of_order: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFacts:
    """Facts about a producer.

    Attributes:
        due: How many messages its schedule had.
        sent: Outcome of those that it handed to the client library; a message is in it as
            soon as it has an answer, and without one at the end.
        earlier: Messages that were due before the run: those that had their answer in it, and
            before it the last one of each partition.
        last_due: When the last message was due that it handed over, by partition.
        errors: Meanings of the numbers in `Sent.error`.
        verdict: Acknowledged against read, after the run; None while it lasts.
        failure: Why the process ended by itself; empty if it did not.
        is_topic_deleted: Whether somebody deleted the topic during the run.
        transactions: Those that began in the time that is measured; None if it has none.
        torn: How many of all are not seen as they were answered; None before the full read.
    """

    topic: str
    due: int
    sent: Sequence[Sent]
    earlier: Sequence[Sent] = ()
    last_due: Mapping[int, int] = field(default_factory=dict)
    errors: Mapping[int, str] = field(default_factory=dict)
    verdict: Verdict | None = None
    failure: str = ""
    is_topic_deleted: bool = False
    transactions: Sequence[Transaction] | None = None
    torn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderFacts:
    """Facts about a consumer.

    Attributes:
        received: Each message, in the order in which they came.
        rebalances: How often its group gave it partitions again; known at the end.
    """

    topic: str
    received: Sequence[Received] = ()
    errors: Sequence[str] = ()
    rebalances: int = 0
    failure: str = ""


class Probe(NamedTuple):
    """One question to the user's application."""

    due_ns: int
    done_ns: int
    is_good: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFacts:
    """Facts about the user's own application, whose `exit_code` is None while it runs.

    Of a writer of metadata a probe is one change, and there is no exit code.
    """

    probes: Sequence[Probe] = ()
    exit_code: int | None = None


class Counted(NamedTuple):
    """Counts of an application, against those that it had to reach.

    Attributes:
        counted: Sum of the last counts of all words.
        missing: How often words are in the input beyond their counts.
        excess: How often words were counted beyond what is in the input.
    """

    counted: int
    missing: int
    excess: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsFacts:
    """Facts about an application of Kafka Streams.

    Attributes:
        counted: After the full read; None before it, or where one of its topics could not be read.
        exit_code: None while it runs.
    """

    counted: Counted | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFacts:
    """Fate of one fault.

    Attributes:
        places: Places that it hit, as its target was resolved in that moment.
        mechanism: Name of the mechanism that made it.
        injected_ns: When it took effect; None if it was not made.
        healed_ns: When it was undone; None while it stands.
        problem: Why it was not made or not proved; empty if it was.
        counts: Whether the mechanism tells how many calls of the broker it broke.
        calls_broken: So many; None where nobody counts.
        broken: Things that it broke until it was healed, such as `12 calls`.
        first_broken_ns: When it broke the first one.
        clients: Fate of clients; None where the fault is not about them.
        touched: Partitions of the load with a replica in what it hit.
        led: Those that were led from there.
        growth: Bytes that came to the touched partitions while it stood, from whomever; None if
            nobody looked.
    """

    name: str
    kind: str
    places: tuple[Place, ...] = ()
    mechanism: str = ""
    injected_ns: int | None = None
    healed_ns: int | None = None
    problem: str = ""
    counts: bool = False
    calls_broken: int | None = None
    broken: str = ""
    first_broken_ns: int | None = None
    clients: Clients | None = None
    touched: tuple[TopicPartition, ...] = ()
    led: tuple[TopicPartition, ...] = ()
    growth: int | None = None

    @property
    def begin_ns(self) -> int | None:
        """From when on its effects are counted: its first broken call, where that is known."""
        return self.first_broken_ns or self.injected_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A whole run.

    Attributes:
        begin_ns: End of the steady state.
        end_ns: End of the time that is measured; what stands still then has not ended.
        noise_ns: Longest delay of a tick in this process: what is shorter was not seen for sure.
        answers_tell: Whether a directory that DescribeLogDirs calls offline was noticed.
        stuck: Partitions whose last stable offset stands before the high watermark after the full
            read; None before it.
        not_measured: Facts that nobody could look at here, with the reason, by the metric's field.
        broken_off: Finding of the run itself: why it did not go as planned.
    """

    begin_ns: int
    end_ns: int
    faults: Mapping[str, FaultFacts] = field(default_factory=dict)
    writers: Mapping[str, WriterFacts] = field(default_factory=dict)
    readers: Mapping[str, ReaderFacts] = field(default_factory=dict)
    commands: Mapping[str, CommandFacts] = field(default_factory=dict)
    streams: Mapping[str, StreamsFacts] = field(default_factory=dict)
    events: Sequence[Event] = ()
    samples: Sequence[Sample] = ()
    noise_ns: int = 0
    answers_tell: bool = True
    stuck: Sequence[TopicPartition] | None = None
    not_measured: Mapping[str, str] = field(default_factory=dict)
    broken_off: Sequence[Finding] = ()
