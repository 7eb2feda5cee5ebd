"""What counts as lost, duplicated and out of order, and how gaps are measured."""

from __future__ import annotations

from lab.verdict import Ack, Consumed, Verdict, first_ack, judge, longest_gap_ms, seen_twice


def ack(key: str, sequence: int, *, offset: int = 0, partition: int = 0, ms: float = 0) -> Ack:
    return Ack(key=key, sequence=sequence, partition=partition, offset=offset, at_ns=int(ms * 1e6))


def consumed(key: str, sequence: int, offset: int, partition: int = 0) -> Consumed:
    return Consumed(key=key, sequence=sequence, partition=partition, offset=offset)


def verdict(acknowledged: int, read: int, **wrong: int) -> Verdict:
    counts = {"lost": 0, "duplicated": 0, "out_of_order": 0, **wrong}
    return Verdict(acknowledged=acknowledged, consumed=read, **counts)


def test_everything_once_and_in_order_is_clean() -> None:
    acks = [ack("a", 0, offset=0), ack("b", 0, offset=1), ack("a", 1, offset=2)]
    messages = [consumed("a", 0, 0), consumed("b", 0, 1), consumed("a", 1, 2)]

    found = judge(acks, messages)

    assert found == verdict(3, 3)
    assert found.is_clean


def test_an_acknowledged_message_that_nobody_read_is_lost() -> None:
    found = judge([ack("a", 0), ack("a", 1)], [consumed("a", 0, 0)])

    assert found == verdict(2, 1, lost=1)
    assert not found.is_clean


def test_a_message_that_was_read_but_never_acknowledged_is_no_fault() -> None:
    assert judge([], [consumed("a", 0, 0)]) == verdict(0, 1)


def test_a_message_at_two_offsets_is_duplicated() -> None:
    found = judge([ack("a", 0)], [consumed("a", 0, 0), consumed("a", 0, 1)])

    assert found == verdict(1, 2, duplicated=1)


def test_an_offset_that_was_fetched_twice_is_no_duplicate() -> None:
    assert judge([ack("a", 0)], [consumed("a", 0, 0), consumed("a", 0, 0)]) == verdict(1, 1)


def test_an_earlier_message_behind_a_later_one_is_out_of_order() -> None:
    messages = [consumed("a", 1, 0), consumed("a", 0, 1), consumed("a", 2, 2)]

    assert judge([], messages) == verdict(0, 3, out_of_order=1)


def test_order_is_that_of_the_log_not_of_arrival() -> None:
    messages = [consumed("a", 1, 1), consumed("a", 0, 0)]

    assert judge([], messages).is_clean


def test_keys_do_not_disturb_each_other() -> None:
    messages = [consumed("a", 5, 0), consumed("b", 0, 1), consumed("a", 6, 2)]

    assert judge([], messages).is_clean


def test_a_message_that_a_group_is_given_again_is_no_second_one() -> None:
    again = [consumed("a", 0, offset=0), consumed("a", 1, offset=1), consumed("a", 1, offset=1)]

    assert seen_twice(again) == 1
    assert judge([], again).duplicated == 0


def test_the_longest_gap_counts_from_the_last_acknowledgement_before_the_fault() -> None:
    acks = [ack("a", n, ms=ms) for n, ms in enumerate((0, 500, 600, 850, 900))]

    assert longest_gap_ms(acks, after_ns=0) == 500
    assert longest_gap_ms(acks, after_ns=700_000_000) == 250
    assert longest_gap_ms(acks[:1], after_ns=0) == 0


def test_the_first_acknowledgement_after_a_time_is_that_of_its_partition() -> None:
    acks = [ack("a", 0, ms=1), ack("b", 0, partition=1, ms=3), ack("a", 1, ms=4)]

    assert first_ack(acks, 0, after_ns=2_000_000) == acks[2]
    assert first_ack(acks, 1, after_ns=3_000_000) is None
