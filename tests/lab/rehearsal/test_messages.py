"""Which messages are lost, duplicated, out of order or unread."""

from __future__ import annotations

import pytest

from lab.rehearsal.facts import Counted, Outcome, Received, Sent, Transaction, Verdict
from lab.rehearsal.messages import count, given_twice, judge, torn

A, B = 1, 2
"""Two keys."""


def ack(key: int, sequence: int, *, offset: int = 0, partition: int = 0) -> Sent:
    return Sent(
        due_ns=0,
        sent_ns=0,
        done_ns=1,
        sequence=sequence,
        offset=offset,
        partition=partition,
        key=key,
        error=0,
    )


def read(key: int, sequence: int, offset: int, partition: int = 0) -> Received:
    return Received(at_ns=0, sequence=sequence, offset=offset, partition=partition, key=key)


def verdict(acknowledged: int, found: int, **wrong: int) -> Verdict:
    counts = {"lost": 0, "unread": 0, "duplicated": 0, "out_of_order": 0, **wrong}
    return Verdict(acknowledged=acknowledged, read=found, **counts)


def test_everything_once_and_in_order_is_clean() -> None:
    acks = [ack(A, 0, offset=0), ack(B, 0, offset=1), ack(A, 1, offset=2)]
    messages = [read(A, 0, 0), read(B, 0, 1), read(A, 1, 2)]

    found = judge(acks, messages)

    assert found == verdict(3, 3)


def test_an_acknowledged_message_that_nobody_read_is_lost() -> None:
    found = judge([ack(A, 0), ack(A, 1)], [read(A, 0, 0)])

    assert found == verdict(2, 1, lost=1)


def test_a_message_that_was_read_but_never_acknowledged_is_no_loss() -> None:
    assert judge([], [read(A, 0, 0)]) == verdict(0, 1)


def test_a_message_at_two_offsets_is_duplicated() -> None:
    found = judge([ack(A, 0)], [read(A, 0, 0), read(A, 0, 1)])

    assert found == verdict(1, 2, duplicated=1)


def test_an_offset_that_was_fetched_twice_is_no_duplicate() -> None:
    assert judge([ack(A, 0)], [read(A, 0, 0), read(A, 0, 0)]) == verdict(1, 1)


def test_an_earlier_message_behind_a_later_one_is_out_of_order() -> None:
    messages = [read(A, 1, 0), read(A, 0, 1), read(A, 2, 2)]

    assert judge([], messages) == verdict(0, 3, out_of_order=1)


def test_order_is_that_of_the_log_not_of_arrival() -> None:
    messages = [read(A, 1, 1), read(A, 0, 0)]

    assert judge([], messages).out_of_order == 0


def test_keys_do_not_disturb_each_other() -> None:
    messages = [read(A, 5, 0), read(B, 0, 1), read(A, 6, 2)]

    assert judge([], messages).out_of_order == 0


def test_a_message_that_a_group_is_given_again_is_not_a_second_one() -> None:
    again = [read(A, 0, offset=0), read(A, 1, offset=1), read(A, 1, offset=1)]

    assert given_twice(again) == 1
    assert judge([], again).duplicated == 0


def test_a_message_of_a_partition_that_was_not_read_to_its_end_is_unread_and_not_lost() -> None:
    acks = [ack(A, 0, partition=0), ack(B, 0, partition=1), ack(B, 1, partition=1)]

    found = judge(acks, [read(B, 0, 0, partition=1)], unread=[1])

    assert found == verdict(3, 1, lost=1, unread=1)


def transaction(outcome: Outcome, first: int = 0, messages: int = 3) -> Transaction:
    return Transaction(
        begun_ns=0,
        asked_ns=1,
        done_ns=2,
        first=first,
        messages=messages,
        outcome=outcome,
        error=0,
        is_fatal=False,
    )


NONE, PART, WHOLE = set[int](), {0, 2}, {0, 1, 2}


@pytest.mark.parametrize(
    ("outcome", "seen", "is_torn"),
    [
        (Outcome.COMMITTED, WHOLE, False),
        (Outcome.COMMITTED, PART, True),
        (Outcome.COMMITTED, NONE, True),
        (Outcome.ABORTED, NONE, False),
        (Outcome.ABORTED, PART, True),
        (Outcome.ABORTED, WHOLE, True),
        (Outcome.UNKNOWN, NONE, False),
        (Outcome.UNKNOWN, WHOLE, False),
        (Outcome.UNKNOWN, PART, True),
    ],
)
def test_a_transaction_is_seen_as_it_was_answered(
    outcome: Outcome, seen: set[int], is_torn: bool
) -> None:
    assert torn([transaction(outcome)], seen, lambda _: False) == is_torn


def test_a_transaction_is_judged_by_what_can_be_read_of_it() -> None:
    some = [transaction(Outcome.COMMITTED), transaction(Outcome.UNKNOWN, first=3)]

    assert torn(some, {0, 2, 3}, lambda number: number in (1, 4, 5)) == 0
    assert torn(some, {0, 2, 3}, lambda number: number == 4) == 2


LINES = [read(A, 7, 0), read(A, 8, 1), read(B, 7, 0, partition=1)]
"""A is there twice, B once, 7 twice, 8 once."""
COUNTS = [read(A, 1, 0), read(7, 2, 1), read(A, 2, 2), read(B, 1, 3), read(8, 1, 0, partition=1)]


def test_the_last_count_of_each_word_is_how_often_messages_have_it() -> None:
    assert count(LINES, reversed(COUNTS)) == Counted(counted=6, missing=0, excess=0)


def test_a_message_that_was_fetched_twice_has_its_words_once() -> None:
    assert count([*LINES, LINES[0]], COUNTS) == Counted(counted=6, missing=0, excess=0)


def test_what_is_not_counted_is_missing_and_what_is_counted_twice_is_excess() -> None:
    wrong = [read(A, 1, 0), read(7, 4, 1), read(8, 1, 0, partition=1)]

    assert count(LINES, wrong) == Counted(counted=6, missing=2, excess=2)
