"""What became of the messages: acknowledged against consumed, and how long acknowledgements paused.

Every message carries a key and that key's next sequence number, so the consumer's side alone shows
duplicates and disorder, and both sides together show loss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """A message that the cluster has acknowledged; the time is that of the monotonic clock."""

    key: str
    sequence: int
    partition: int
    offset: int
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """A message that a consumer was given, and when, on the monotonic clock."""

    key: str
    sequence: int
    partition: int
    offset: int
    at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many messages there were, and how many of them went wrong in which way."""

    acknowledged: int
    consumed: int
    lost: int
    duplicated: int
    out_of_order: int

    @property
    def is_clean(self) -> bool:
        """Whether nothing went wrong."""
        return self.lost == self.duplicated == self.out_of_order == 0


def judge(acks: Sequence[Ack], consumed: Sequence[Consumed]) -> Verdict:
    """Compare what was acknowledged with what was consumed, partition by partition.

    Lost is an acknowledged message that was not consumed. Duplicated is one that was consumed from
    a second offset. Out of order is one that comes after a later one of its key.
    """
    # A partition is consumed in the order of its offsets; an offset that a client is given twice,
    # because it had to fetch again, is no second message in the log.
    found = sorted({(m.partition, m.offset, m.key, m.sequence) for m in consumed})
    times = Counter((key, sequence) for _, _, key, sequence in found)
    highest: dict[str, int] = {}
    out_of_order = 0
    for _, _, key, sequence in found:
        # An equal number is a duplicate and counted as such.
        if sequence < highest.get(key, -1):
            out_of_order += 1
        highest[key] = max(sequence, highest.get(key, -1))
    return Verdict(
        acknowledged=len(acks),
        consumed=len(found),
        lost=sum((ack.key, ack.sequence) not in times for ack in acks),
        duplicated=sum(count - 1 for count in times.values()),
        out_of_order=out_of_order,
    )


def seen_twice(consumed: Sequence[Consumed]) -> int:
    """Return how many messages a group was given again, from the same offset."""
    return len(consumed) - len({(message.partition, message.offset) for message in consumed})


def longest_gap_ms(events: Iterable[Ack | Consumed], *, after_ns: int) -> float:
    """Return the longest time between two events of which the second came after a time.

    0 if there are no two.
    """
    times = sorted(event.at_ns for event in events)
    gaps = (late - early for early, late in pairwise(times) if late > after_ns)
    return max(gaps, default=0) / 1e6


def longest_partition_gap_ms(acks: Sequence[Ack], *, after_ns: int) -> float:
    """Return the longest such time within one partition."""
    partitions = {ack.partition for ack in acks}
    return max(
        (
            longest_gap_ms((a for a in acks if a.partition == partition), after_ns=after_ns)
            for partition in partitions
        ),
        default=0,
    )


def first_ack(acks: Iterable[Ack], partition: int, *, after_ns: int) -> Ack | None:
    """Return the first acknowledgement of a partition after a time; None if there is none yet."""
    later = (ack for ack in acks if ack.partition == partition and ack.at_ns > after_ns)
    return min(later, key=lambda ack: ack.at_ns, default=None)
