"""The value of each metric, from the facts of a run; durations in seconds.

Infinity stands for what should have happened and did not; None for what nobody could know, or
what there was nothing of: no partition was led from the directory, no message was acknowledged.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from jbodlab.durations import duration_s
from jbodlab.expressions import Metric
from jbodlab.ids import TopicPartition
from lab.rehearsal.facts import (
    CommandFacts,
    Facts,
    FaultFacts,
    ReaderFacts,
    Sent,
    WriterFacts,
)
from lab.rehearsal.targets import Place
from lab.rehearsal.vocabulary import ALL

NEVER = math.inf
NS = 1e9
TIMED_OUT = ("_MSG_TIMED_OUT", "_TIMED_OUT", "REQUEST_TIMED_OUT", "_PURGE_INFLIGHT")
"""Errors of the client after which nobody knows whether a message was kept."""


@dataclass(slots=True)
class Measured:
    """Measures facts; what several metrics need is worked out once."""

    facts: Facts
    _holes: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    _acks: dict[TopicPartition, list[int]] | None = None

    def __call__(self, metric: Metric) -> float | None:
        """Return the value of a metric."""
        facts, owner = self.facts, metric.owner
        if metric.field in facts.not_measured:
            return None
        if not owner:
            return self._of_cluster(metric.field)
        if owner == ALL:
            return self._longest_hole(self._partitions(), facts.begin_ns, facts.end_ns)
        if owner in facts.writers:
            return _of_writers(facts.writers[owner], metric, facts, self._longest_hole)
        if owner in facts.readers:
            return _of_readers(facts.readers[owner], metric.field)
        if owner in facts.commands:
            return _of_command(facts.commands[owner], metric, facts)
        return self._of_faults(owner, metric.field)

    def _of_cluster(self, name: str) -> float | None:
        if name == "noise":
            return self.facts.noise_ns / NS
        return getattr(self.facts.samples[-1], name) if self.facts.samples else None

    def _of_faults(self, owner: str, name: str) -> float | None:
        """The worst of the repetitions of an entry, or of the one entry."""
        found = [
            self._of_fault(fault, name)
            for fault in self.facts.faults.values()
            if owner in (fault.name, fault.name.partition("#")[0])
        ]
        known = [value for value in found if value is not None]
        if not known:
            return None
        return sum(known) if name == "bites" else max(known)

    def _of_fault(self, fault: FaultFacts, name: str) -> float | None:
        begin = fault.begin_ns
        if begin is None or fault.injected_ns is None:
            return None
        match name:
            case "bites":
                return fault.bites
            case "gap":
                end = fault.healed_ns or self.facts.end_ns
                return self._longest_hole(fault.touched, fault.injected_ns, end)
            case "detected":
                return _since(begin, _noticed(fault, self.facts, ("broker", "metric")))
            case "reported":
                return _since(begin, _noticed(fault, self.facts, ("metadata",)))
            case "elected":
                return _since(begin, self._elected(fault, "metadata").values())
            case "leader_seen":
                return _since(begin, self._elected(fault, "metric").values())
            case "first_ack":
                return _since(begin, self._first_acks(fault))
            case "isr_back":
                healed = fault.healed_ns
                return None if healed is None else _since(healed, self._isr_back(fault, healed))
        raise AssertionError(f"no metric of a fault: {name}")

    def _elected(self, fault: FaultFacts, source: str) -> dict[TopicPartition, int | None]:
        """When each partition that was led from there had another leader."""
        struck = {place.broker for place in fault.places}
        found: dict[TopicPartition, int | None] = dict.fromkeys(fault.led)
        for event in self.facts.events:
            if event.source == source and event.kind == "leader" and event.partition in found:
                is_news = event.t_ns + event.err_ns >= (fault.injected_ns or 0)
                leader = event.data.get("leader", -1)
                if is_news and leader >= 0 and leader not in struck:
                    found[event.partition] = found[event.partition] or event.t_ns
        return found

    def _first_acks(self, fault: FaultFacts) -> list[int | None]:
        source = "leader_seen" if "elected" in self.facts.not_measured else "elected"
        elected = self._elected(fault, "metric" if source == "leader_seen" else "metadata")
        acks = self._acks_of_partitions()
        return [
            None
            if at_ns is None
            else next((ack for ack in acks.get(partition, ()) if ack >= at_ns), None)
            for partition, at_ns in elected.items()
        ]

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

    # Acknowledgements

    def _partitions(self) -> list[TopicPartition]:
        return sorted(self._acks_of_partitions())

    def _acks_of_partitions(self) -> dict[TopicPartition, list[int]]:
        if self._acks is None:
            found: dict[TopicPartition, list[int]] = defaultdict(list)
            for writer in self.facts.writers.values():
                for one in writer.sent:
                    if one.is_acked:
                        found[TopicPartition(writer.topic, one.partition)].append(one.done_ns)
            self._acks = {partition: sorted(times) for partition, times in found.items()}
        return self._acks

    def _longest_hole(
        self, partitions: Iterable[TopicPartition], begin_ns: int, end_ns: int
    ) -> float | None:
        """The longest stretch without an acknowledgement that touches a span of time."""
        holes = [
            late - early
            for partition in partitions
            for early, late in self._holes_of(partition)
            if late > begin_ns and early < end_ns
        ]
        return max(holes) / NS if holes else None

    def _holes_of(self, partition: TopicPartition) -> list[tuple[int, int]]:
        """Between acknowledgements; at the end, up to the last message that never had one."""
        if partition not in self._holes:
            times = self._acks_of_partitions().get(partition, [])
            holes = list(pairwise(times))
            unanswered = [
                one.due_ns
                for writer in self.facts.writers.values()
                if writer.topic == partition.topic
                for one in writer.sent
                if one.partition == partition.partition and not one.is_acked
            ]
            last_due, first = max(unanswered, default=0), min(unanswered, default=0)
            if unanswered and not times:
                holes.append((first, max(last_due, self.facts.end_ns)))
            elif unanswered and last_due > times[-1]:
                holes.append((times[-1], last_due))
            self._holes[partition] = holes
        return self._holes[partition]


def _noticed(fault: FaultFacts, facts: Facts, sources: tuple[str, ...]) -> list[int | None]:
    """When each place that was struck was known to be lost, from the surest of the sources.

    A node is lost when the controller fences it. Where its log cannot be read, that is taken from
    the node's silence.
    """
    of_node = ("metric", "silent") if "elected" in facts.not_measured else ("metadata", "fenced")
    found: dict[Place, int | None] = dict.fromkeys(fault.places)
    for place in fault.places:
        wanted = [(source, "offline") for source in sources] if place.directory else [of_node]
        for source, kind in wanted:
            times = [
                event.t_ns
                for event in facts.events
                if event.source == source
                and event.kind == kind
                and event.place == place
                and event.t_ns + event.err_ns >= (fault.injected_ns or 0)
            ]
            if times:
                found[place] = min(times)
                break
    return list(found.values())


def _since(begin_ns: int, moments: Iterable[int | None]) -> float | None:
    """Seconds until the last of some moments; never, if one did not come."""
    known = list(moments)
    if not known:
        return None
    if None in known:
        return NEVER
    return max(0.0, (max(moment for moment in known if moment is not None) - begin_ns) / NS)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that so large a share of the values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _of_writers(
    writer: WriterFacts,
    metric: Metric,
    facts: Facts,
    longest_hole: Callable[[Iterable[TopicPartition], int, int], float | None],
) -> float | None:
    judged = writer.verdict
    match metric.field:
        case "sent":
            return len(writer.sent)
        case "acked":
            return sum(one.is_acked for one in writer.sent)
        case "errors":
            return sum(one.error != 0 for one in writer.sent)
        case "unknown":
            return sum(_is_unknown(one, writer.errors) for one in writer.sent)
        case "lost":
            return None if judged is None else judged.lost
        case "duplicated":
            return None if judged is None else judged.duplicated
        case "reordered":
            return None if judged is None else judged.out_of_order
        case "behind":
            return 0.0 if not writer.due else max(0.0, 1 - len(writer.sent) / writer.due)
        case "availability":
            limit_ns = duration_s(metric.argument) * NS
            good = sum(o.is_acked and o.done_ns - o.due_ns <= limit_ns for o in writer.sent)
            # One that was due in the moment of the end may have been sent.
            due = max(writer.due, len(writer.sent))
            return good / due if due else None
        case "windows":
            return _windows(writer.sent, duration_s(metric.argument) * NS)
        case "gap":
            partitions = {TopicPartition(writer.topic, one.partition) for one in writer.sent}
            return longest_hole(partitions, facts.begin_ns, facts.end_ns)
    spans = [] if not metric.argument else _spans(facts)
    latencies = [
        (one.done_ns - one.due_ns) / NS
        for one in writer.sent
        if one.is_acked and _is_on_side(one.due_ns, metric.argument, spans)
    ]
    return _latency(latencies, metric.field)


def _is_unknown(one: Sent, errors: Mapping[int, str]) -> bool:
    return one.done_ns < 0 or errors.get(one.error, "") in TIMED_OUT


def _windows(sent: Sequence[Sent], window_ns: float) -> float | None:
    if not sent:
        return None
    begin = min(one.due_ns for one in sent)
    count = int((max(one.due_ns for one in sent) - begin) // window_ns)
    with_acks = {int((one.done_ns - begin) // window_ns) for one in sent if one.is_acked}
    # The last window is not whole, and whoever counted it would blame the end of the run.
    return len([each for each in with_acks if each < count]) / count if count else None


def _spans(facts: Facts) -> list[tuple[int, int]]:
    return [
        (fault.injected_ns, fault.healed_ns or facts.end_ns)
        for fault in facts.faults.values()
        if fault.injected_ns is not None
    ]


def _is_on_side(at_ns: int, side: str, spans: Sequence[tuple[int, int]]) -> bool:
    return not side or (side == "inside") == any(begin <= at_ns <= end for begin, end in spans)


def _latency(values: Sequence[float], name: str) -> float | None:
    return percentile(values, {"p50": 0.5, "p99": 0.99, "max": 1.0}[name])


def _of_readers(reader: ReaderFacts, name: str) -> float | None:
    if name == "consumed":
        return len(reader.received)
    if name == "errors":
        return len(reader.errors)
    by_partition: dict[int, list[int]] = defaultdict(list)
    for at_ns, partition in reader.received:
        by_partition[partition].append(at_ns)
    holes = [b - a for times in by_partition.values() for a, b in pairwise(sorted(times))]
    return max(holes) / NS if holes else None


def _of_command(command: CommandFacts, metric: Metric, facts: Facts) -> float | None:
    good = [probe for probe in command.probes if probe.is_good]
    match metric.field:
        case "exit":
            return command.exit_code
        case "probes":
            return len(command.probes)
        case "errors":
            return len(command.probes) - len(good)
        case "availability":
            return len(good) / len(command.probes) if command.probes else None
        case "gap":
            ends = [probe.done_ns for probe in good]
            if command.probes and not command.probes[-1].is_good:
                ends.append(command.probes[-1].done_ns)
            holes = [b - a for a, b in pairwise(sorted(ends))]
            return max(holes) / NS if holes else None
    spans = [] if not metric.argument else _spans(facts)
    latencies = [
        (probe.done_ns - probe.due_ns) / NS
        for probe in good
        if _is_on_side(probe.due_ns, metric.argument, spans)
    ]
    return _latency(latencies, metric.field)
