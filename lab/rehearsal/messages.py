"""The judge of messages: acknowledged by the cluster against read back from its topics.

Every message carries a key and that key's next sequence number, so what was read alone shows
duplicates and disorder, and both sides together show loss. A message of a partition that could not
be read to its end is unread: nobody knows whether it is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from lab.rehearsal.facts import Counted, Outcome, Received, Sent, Transaction, Verdict


def judge(acked: Sequence[Sent], read: Iterable[Received], unread: Collection[int] = ()) -> Verdict:
    """Compare the acknowledged messages of one topic with what was read of it.

    A message is lost if it was acknowledged and is not in a partition that was read to its end;
    duplicated if it has a second offset; out of order if it comes after a later one of its key.

    Args:
        acked: The acknowledged messages.
        read: Messages that a full read found, in any order.
        unread: Partitions that could not be read to their ends.
    """
    # A partition is read in the order of its offsets; an offset that a client is given twice,
    # because it had to fetch again, is not a second message in the log.
    found = sorted({(one.partition, one.offset, one.key, one.sequence) for one in read})
    times = Counter((key, sequence) for _, _, key, sequence in found)
    missing = [one for one in acked if (one.key, one.sequence) not in times]
    unknown = sum(one.partition in unread for one in missing)
    highest: dict[int, int] = {}
    out_of_order = 0
    for _, _, key, sequence in found:
        # An equal number is a duplicate and counted as such.
        out_of_order += sequence < highest.get(key, -1)
        highest[key] = max(sequence, highest.get(key, -1))
    return Verdict(
        acknowledged=len(acked),
        read=len(found),
        lost=len(missing) - unknown,
        unread=unknown,
        duplicated=sum(count - 1 for count in times.values()),
        out_of_order=out_of_order,
    )


def torn(
    transactions: Iterable[Transaction],
    read: Collection[int],
    is_unread: Callable[[int], bool],
) -> int:
    """Return how many transactions are not seen as they were answered.

    A committed one is seen whole, an aborted one not at all, and one without an answer either way;
    messages of partitions that could not be read to their ends do not count.

    Args:
        transactions: All of one producer.
        read: Numbers of its messages that a full read found.
        is_unread: Whether a message belongs to a partition that was not read to its end.
    """
    found = 0
    for one in transactions:
        members = range(one.first, one.first + one.messages)
        known = [number for number in members if not is_unread(number)]
        seen = sum(number in read for number in known)
        expected = {
            Outcome.COMMITTED: (len(known),),
            Outcome.ABORTED: (0,),
            Outcome.UNKNOWN: (0, len(known)),
        }
        found += seen not in expected[Outcome(one.outcome)]
    return found


def count(lines: Iterable[Received], counts: Iterable[Received]) -> Counted:
    """Compare the counts of words with the messages that they are in.

    A message has two words, its sequence number and its key. A count has its word as the key and
    itself as the sequence number; the last one of each word is meant, which are all in one
    partition.

    Args:
        lines: Messages that a full read found, in any order.
        counts: The same of the counts.
    """
    found = {(one.partition, one.offset): (one.sequence, one.key) for one in lines}
    expected = Counter(word for words in found.values() for word in words)
    ordered = sorted(counts, key=lambda one: (one.partition, one.offset))
    latest = Counter({one.key: one.sequence for one in ordered})
    return Counted(
        counted=latest.total(),
        missing=(expected - latest).total(),
        excess=(latest - expected).total(),
    )


def given_twice(received: Sequence[Received]) -> int:
    """Return how many messages consumers were given again, from the same offset."""
    return len(received) - len({(one.partition, one.offset) for one in received})
