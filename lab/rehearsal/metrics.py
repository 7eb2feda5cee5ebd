"""The value of each metric, from the facts of a run; durations in seconds.

Infinity stands for what should have happened and did not; None for what nobody could know, or
what there was nothing of: no partition was led from the directory, no message was acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from jbodlab.picture.places import Place
from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.expressions import MetricName, MetricUnit
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC, TopicPartition
from lab.plan.values import show
from lab.plan.vocabulary import ALL, OF_CLIENTS, TRANSACTIONS
from lab.rehearsal.facts import (
    NOT_ANSWERED,
    CommandFacts,
    Facts,
    FaultFacts,
    Outcome,
    ReaderFacts,
    StreamsFacts,
    Transaction,
    WriterFacts,
)
from lab.rehearsal.tallies import (
    SAMPLES_MIN,
    Acks,
    Answers,
    Hole,
    InTime,
    Latencies,
    Partitions,
    Receipts,
    Spans,
    Tally,
    Windows,
    longest_of,
)
from lab.watch.noticed import ANSWERS, METADATA, OF_BROKER, Notice, notices, surest

NEVER = math.inf
NS = 1e9
TIMED_OUT = ("_MSG_TIMED_OUT", "_TIMED_OUT", "REQUEST_TIMED_OUT", "_PURGE_INFLIGHT")
"""Errors of the client after which nobody knows whether a message was kept."""
SHARES = {"p50": 0.5, "p99": 0.99, "max": 1.0}

AnyTally = TypeVar("AnyTally", bound="Tally[Any]")


class Gap(NamedTuple):
    """The longest time without an acknowledgement of one partition, and which one it is."""

    partition: TopicPartition
    hole: Hole

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.hole.length_ns / NS

    def __str__(self) -> str:
        open_end = ", not ended" if self.hole.is_open else ""
        return f"{show(self.seconds, MetricUnit.DURATION)} in {self.partition}{open_end}"


class Measured:
    """Measures the facts of one run, also again and again while it lasts.

    Args:
        facts: Known facts about it.
    """

    def __init__(self, facts: Facts) -> None:
        self._tallies: dict[Hashable, Any] = {}
        self._partitions = Partitions()
        self.look_at(facts)

    def look_at(self, facts: Facts) -> None:
        """Go on with the facts of the same run as they are later: what was there has only grown."""
        self.facts = facts
        self._partitions.take(
            ((name, is_early), one.topic, one.earlier if is_early else one.sent)
            for name, one in facts.writers.items()
            for is_early in (True, False)
        )

    def __call__(self, metric: MetricName) -> float | None:
        """Return the value of a metric."""
        facts, owner = self.facts, metric.owner
        if metric.field in facts.not_measured:
            return None
        if metric.field == "gap" and owner not in (*facts.readers, *facts.commands):
            found = self.gap(metric)
            return None if found is None else found.seconds
        if not owner:
            return self._of_cluster(metric.field)
        if owner == TRANSACTIONS:
            return self._of_transactions(metric.field)
        if owner in facts.writers:
            return self._of_writers(owner, facts.writers[owner], metric)
        if owner in facts.readers:
            return self._of_readers(owner, facts.readers[owner], metric.field)
        if owner in facts.commands:
            return _of_command(facts.commands[owner], metric, self._spans)
        if owner in facts.streams:
            return _of_streams(facts.streams[owner], metric.field)
        return self._of_faults(owner, metric.field)

    def shown(self, metric: MetricName, unit: MetricUnit) -> str:
        """Return the value of a metric as a person reads it."""
        if metric.field == "gap" and (gap := self.gap(metric)) is not None:
            return str(gap)
        value = self(metric)
        return "not known" if value is None else show(value, unit)

    def gap(self, metric: MetricName) -> Gap | None:
        """Return the gap that a metric of faults, of producers or of all partitions is about."""
        facts, owner = self.facts, metric.owner
        if owner == ALL:
            return self.longest_gap(facts.begin_ns)
        if owner in facts.writers:
            return self._longest(self._known(owner), facts.begin_ns, None)
        found = [
            self._longest(fault.touched, fault.injected_ns, fault.healed_ns)
            for fault in self._faults_of(owner)
            if fault.injected_ns is not None
        ]
        return max(filter(None, found), key=lambda gap: gap.seconds, default=None)

    def longest_gap(self, since_ns: int) -> Gap | None:
        """Return the longest gap of any partition that was there at a moment or after it."""
        return self._longest(self._known(*self.facts.writers), since_ns, None)

    def first_acks(self, fault: FaultFacts) -> dict[TopicPartition, int | None]:
        """Return when each partition that was led from there had an acknowledgement again."""
        source = "metric" if "elected" in self.facts.not_measured else "metadata"
        return {
            partition: None if at_ns is None else self._acks_of(partition).first_since(at_ns)
            for partition, at_ns in self._elected(fault, source).items()
            # Nobody acknowledges messages of a coordinator's log.
            if partition.topic != TRANSACTION_STATE_TOPIC
        }

    def detected(self, fault: FaultFacts) -> Mapping[Place, Notice | None]:
        """Return who was the surest to tell that brokers noticed a fault, by what it hit."""
        answers = (ANSWERS,) if self.facts.answers_tell else ()
        return self._surest(fault, (*OF_BROKER, *answers))

    def _surest(self, fault: FaultFacts, sources: Sequence[str]) -> Mapping[Place, Notice | None]:
        has_metadata = "elected" not in self.facts.not_measured
        return surest(fault.places, self.notices(fault), sources, has_metadata=has_metadata)

    def notices(self, fault: FaultFacts) -> list[Notice]:
        """Return the first notice of a fault by each source."""
        since_ns = fault.injected_ns
        return [] if since_ns is None else notices(fault.places, since_ns, self.facts.events)

    def _faults_of(self, owner: str) -> list[FaultFacts]:
        """The repetitions of an entry, or the one entry."""
        return [
            fault
            for fault in self.facts.faults.values()
            if owner in (fault.name, fault.name.partition("#")[0])
        ]

    def _of_cluster(self, name: str) -> float | None:
        if name == "noise":
            return self.facts.noise_ns / NS
        return getattr(self.facts.samples[-1], name) if self.facts.samples else None

    def _of_faults(self, owner: str, name: str) -> float | None:
        """The worst of the repetitions of an entry, or of the one entry."""
        found = [self._of_fault(fault, name) for fault in self._faults_of(owner)]
        known = [value for value in found if value is not None]
        if not known:
            return None
        return sum(known) if name == "calls_broken" else max(known)

    def _of_fault(self, fault: FaultFacts, name: str) -> float | None:
        begin = fault.begin_ns
        if begin is None or fault.injected_ns is None:
            return None
        match name:
            case "calls_broken":
                return fault.calls_broken
            case name if name in OF_CLIENTS:
                return None if fault.clients is None else getattr(fault.clients, name)
            case "detected":
                return _since(begin, _times(self.detected(fault)))
            case "reported":
                return _since(begin, _times(self._surest(fault, (METADATA,))))
            case "elected":
                return _since(begin, self._elected(fault, "metadata").values())
            case "leader_seen":
                return _since(begin, self._elected(fault, "metric").values())
            case "first_ack":
                return _since(begin, self.first_acks(fault).values())
            case "isr_back":
                healed = fault.healed_ns
                return None if healed is None else _since(healed, self._isr_back(fault, healed))
        raise AssertionError(f"no metric of a fault: {name}")

    def _elected(self, fault: FaultFacts, source: str) -> dict[TopicPartition, int | None]:
        """When each partition that was led from there had another leader."""
        hit = {place.broker for place in fault.places}
        found: dict[TopicPartition, int | None] = dict.fromkeys(fault.led)
        for event in self.facts.events:
            if event.source == source and event.kind == "leader" and event.partition in found:
                is_news = event.t_ns + event.err_ns >= (fault.injected_ns or 0)
                leader = event.data.get("leader", -1)
                if is_news and leader >= 0 and leader not in hit:
                    found[event.partition] = found[event.partition] or event.t_ns
        return found

    def _isr_back(self, fault: FaultFacts, healed_ns: int) -> list[int | None]:
        """When the ISR of each touched partition was whole, from the healing on."""
        source = "metric" if "elected" in self.facts.not_measured else "metadata"
        whole: dict[TopicPartition, int | None] = dict.fromkeys(fault.touched, healed_ns)
        for event in self.facts.events:
            if event.source != source or event.kind != "isr" or event.partition not in whole:
                continue
            is_full = event.data["isr"] >= event.data["replicas"]
            if event.t_ns <= healed_ns:
                whole[event.partition] = healed_ns if is_full else None
            elif is_full and whole[event.partition] is None:
                whole[event.partition] = event.t_ns
        return list(whole.values())

    # Messages

    def _of_writers(self, name: str, writer: WriterFacts, metric: MetricName) -> float | None:
        facts, sent, judged = self.facts, writer.sent, writer.verdict
        answers = self._answers(name)
        match metric.field:
            case "sent":
                return len(sent)
            case "acked":
                return answers.acked
            case "errors":
                return answers.errors.total()
            case "unknown":
                timed_out = [
                    count
                    for error, count in answers.errors.items()
                    if writer.errors.get(error, "") in TIMED_OUT
                ]
                return answers.unanswered + sum(timed_out)
            case "lost" | "unread" | "duplicated":
                return None if judged is None else getattr(judged, metric.field)
            case "reordered":
                return None if judged is None else judged.out_of_order
            case "behind":
                return 0.0 if not writer.due else max(0.0, 1 - len(sent) / writer.due)
            case "availability":
                limit_ns = duration_s(metric.argument) * NS
                in_time = self._tally((name, limit_ns), lambda: InTime(limit_ns)).take(sent)
                # One that was due in the moment of the end may have been sent.
                due = max(writer.due, len(sent))
                return in_time.good / due if due else None
            case "windows":
                window_ns, begin_ns = duration_s(metric.argument) * NS, facts.begin_ns
                key = (name, "windows", begin_ns, window_ns)
                return self._tally(key, lambda: Windows(begin_ns, window_ns)).take(sent).share
        side = metric.argument
        spans = self._spans if side else ()
        # As soon as a fault begins or ends, all are looked at once more.
        latencies = self._tally((name, side, spans), lambda: Latencies(side, spans)).take(sent)
        found = latencies.percentile_ns(SHARES[metric.field])
        return None if found is None else found / NS

    def _of_transactions(self, field: str) -> float | None:
        facts = self.facts
        if field == "stuck":
            return None if facts.stuck is None else len(facts.stuck)
        told = [one.transactions for one in facts.writers.values() if one.transactions is not None]
        if not told:
            # Those of applications are known to nobody else.
            return None
        found = [one for transactions in told for one in transactions]
        match field:
            case "longest_commit":
                lengths = (_commit_ns(one, facts.end_ns) for one in found)
                return max(lengths, default=0) / NS if found else None
            case "fatal":
                return sum(one.is_fatal for one in found)
            case "torn":
                known = [one.torn for one in facts.writers.values() if one.torn is not None]
                return sum(known) if known else None
        return sum(one.outcome == Outcome[field.upper()] for one in found)

    def _of_readers(self, name: str, reader: ReaderFacts, field: str) -> float | None:
        match field:
            case "consumed":
                return len(reader.received)
            case "errors":
                return len(reader.errors)
            case "rebalances":
                return reader.rebalances
        longest = self._tally((name, "receipts"), Receipts).take(reader.received).longest_ns
        return None if longest is None else longest / NS

    @property
    def _spans(self) -> Spans:
        """When a fault was there."""
        return tuple(
            (fault.injected_ns, fault.healed_ns)
            for fault in self.facts.faults.values()
            if fault.injected_ns is not None
        )

    def _answers(self, name: str) -> Answers:
        return self._tally((name, "answers"), Answers).take(self.facts.writers[name].sent)

    def _tally(self, key: Hashable, new: Callable[[], AnyTally]) -> AnyTally:
        """Return the tally of a key, which is new where there was none."""
        if key not in self._tallies:
            self._tallies[key] = new()
        found: AnyTally = self._tallies[key]
        return found

    # Gaps

    def _known(self, *writers: str) -> list[TopicPartition]:
        """The partitions to which some producers have handed over messages."""
        return sorted(
            {
                TopicPartition(self.facts.writers[name].topic, partition)
                for name in writers
                for partition in self._last_due_of(name)
            }
        )

    def _last_due_of(self, name: str) -> dict[int, int]:
        return {**self._answers(name).last_due, **self.facts.writers[name].last_due}

    def _acks_of(self, partition: TopicPartition) -> Acks:
        return self._partitions.acks[partition.topic, partition.partition]

    def _longest(
        self, partitions: Iterable[TopicPartition], begin_ns: int, until_ns: int | None
    ) -> Gap | None:
        """The longest stretch without an acknowledgement that touches a span of time."""
        found = [
            Gap(partition, hole)
            for partition in partitions
            for hole in self._holes(partition, begin_ns, until_ns)
        ]
        return max(found, key=lambda gap: gap.hole.length_ns, default=None)

    def _holes(
        self, partition: TopicPartition, begin_ns: int, until_ns: int | None
    ) -> Iterable[Hole]:
        """The longest hole of one partition, and the one that is open now."""
        now, acks = self.facts.end_ns, self._acks_of(partition)
        if hole := acks.longest(begin_ns, until_ns, now):
            yield hole
        due = self._due(partition)
        if due is None:
            return
        first_due, last_due = due
        last_ack = acks.times[-1] if acks.times else first_due
        is_meant = last_ack < (now if until_ns is None else until_ns)
        # Messages that were due after the last acknowledgement have none.
        if is_meant and last_ack < now and (last_due > last_ack or not acks.times):
            yield Hole(last_ack, now, is_open=True)

    def _due(self, partition: TopicPartition) -> tuple[int, int] | None:
        """When the first and the last message of a partition was due; None: none was."""
        firsts, lasts = [], []
        for name, writer in self.facts.writers.items():
            last_due = self._last_due_of(name).get(partition.partition)
            if writer.topic == partition.topic and last_due is not None:
                first = self._answers(name).first_due.get(partition.partition)
                firsts.append(self.facts.begin_ns if first is None else first)
                lasts.append(last_due)
        return (min(firsts), max(lasts)) if lasts else None


def _commit_ns(one: Transaction, end_ns: int) -> int:
    """How long a commit took, or takes at the end of what is measured."""
    answered_ns = end_ns if one.done_ns == NOT_ANSWERED else one.done_ns
    return max(0, answered_ns - one.asked_ns)


def _times(found: Mapping[Place, Notice | None]) -> list[int | None]:
    return [None if notice is None else notice.t_ns for notice in found.values()]


def _since(begin_ns: int, moments: Iterable[int | None]) -> float | None:
    """Seconds until the last of some moments; never, if one did not come."""
    known = list(moments)
    if not known:
        return None
    if None in known:
        return NEVER
    return max(0.0, (max(moment for moment in known if moment is not None) - begin_ns) / NS)


def _of_command(command: CommandFacts, metric: MetricName, spans: Spans) -> float | None:
    good = [probe for probe in command.probes if probe.is_good]
    match metric.field:
        case "exit":
            return command.exit_code
        case "probes" | "changes":
            return len(command.probes)
        case "errors":
            return len(command.probes) - len(good)
        case "availability":
            return len(good) / len(command.probes) if command.probes else None
        case "gap":
            ends = [probe.done_ns for probe in good]
            if command.probes and not command.probes[-1].is_good:
                ends.append(command.probes[-1].done_ns)
            longest = longest_of(ends)
            return None if longest is None else longest / NS
    latencies = Latencies(metric.argument, spans)
    for probe in good:
        latencies.add_probe(probe)
    found = latencies.percentile_ns(SHARES[metric.field])
    return None if found is None else found / NS


def _of_streams(streams: StreamsFacts, field: str) -> float | None:
    if field == "exit":
        return streams.exit_code
    return None if streams.counted is None else float(getattr(streams.counted, field))


def why_unknown(metric: MetricName, facts: Facts) -> str:
    """Return why a metric has no value."""
    if metric.field in ("p50", "p99"):
        return f"fewer than {SAMPLES_MIN} were measured"
    return facts.not_measured.get(metric.field, "there was nothing to measure")
