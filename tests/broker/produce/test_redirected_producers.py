from __future__ import annotations

import pytest

from broker.bounds.limits import REDIRECTS_REMEMBERED_MAX, REDIRECTS_REMEMBERED_S
from broker.produce.redirected_producers import RedirectedProducers, Sender
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.ids import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
A, ALSO_A = (Sender(object(), f"10.0.0.1:{port}", "a", "f") for port in (1, 2))
"""Two connections of a client."""
B = Sender(object(), "10.0.0.2:1", "a", "f")


def batch(value: bytes = b"v", *, at_ms: int = 0, sequence: int = -1) -> bytes:
    return build_batch([(None, value)], timestamp_ms=at_ms, base_sequence=sequence)


def is_resending(
    redirected: RedirectedProducers,
    sender: Sender,
    partition: TopicPartition,
    records: bytes | None,
    now_s: float,
) -> bool:
    redirected.forget_old(now_s)
    return redirected.is_resending(sender, partition, records, now_s)


@pytest.fixture
def redirected() -> RedirectedProducers:
    return RedirectedProducers()


def test_who_was_not_redirected_is_not_resending(redirected: RedirectedProducers) -> None:
    assert not redirected.told
    assert not is_resending(redirected, A, P0, batch(), 0)


def test_redirected_producer_that_sends_the_same_is_resending_and_so_is_what_follows() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(), 0)

    assert redirected.told
    assert is_resending(redirected, A, P0, batch(), 1)
    assert is_resending(redirected, A, P0, batch(b"another"), 1)
    assert is_resending(redirected, A, P0, None, 1)


def test_a_batch_is_the_same_with_another_time_but_not_with_another_sequence_or_record() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(sequence=3), 0)

    assert not is_resending(redirected, A, P0, batch(sequence=4), 1)
    assert not is_resending(redirected, A, P0, batch(b"w", sequence=3), 1)
    assert is_resending(redirected, A, P0, batch(at_ms=1_234, sequence=3), 1)


def test_what_was_under_way_with_the_first_refused_batch_is_refused_as_well() -> None:
    redirected = RedirectedProducers()
    first, second, third = (batch(value) for value in (b"1", b"2", b"3"))
    redirected.refused(A, P0, first, 0)
    for late in (second, third):
        assert not is_resending(redirected, A, P0, late, 0.1)
        redirected.refused(A, P0, late, 0.1)

    assert not is_resending(redirected, A, P0, second, 0.2), "it would overtake the first"
    assert is_resending(redirected, A, P0, first, 0.3)
    assert is_resending(redirected, A, P0, second, 0.3)


def test_every_client_is_told_of_every_partition_by_itself(redirected: RedirectedProducers) -> None:
    redirected.refused(A, P0, batch(), 0)

    assert not is_resending(redirected, B, P0, batch(), 1)
    assert not is_resending(redirected, ALSO_A._replace(client_id="b"), P0, batch(), 1)
    assert not is_resending(redirected, A, P1, batch(), 1)


def test_a_client_may_come_back_over_another_connection_and_that_is_the_one_that_did() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(b"1"), 0)

    assert not is_resending(redirected, ALSO_A, P0, batch(b"2"), 1)
    assert is_resending(redirected, ALSO_A, P0, batch(b"1"), 1)
    assert is_resending(redirected, ALSO_A, P0, batch(b"2"), 1)
    assert not is_resending(redirected, A, P0, batch(b"2"), 1), "under way since before it was told"
    assert not is_resending(redirected, ALSO_A, P0, batch(b"2"), REDIRECTS_REMEMBERED_S + 1)


def test_a_connection_whose_first_batch_came_back_over_another_one_is_told_anew() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(b"1"), 0)
    assert is_resending(redirected, ALSO_A, P0, batch(b"1"), 1)

    assert not is_resending(redirected, A, P0, batch(b"2"), 2)
    redirected.refused(A, P0, batch(b"2"), 2)
    redirected.refused(A, P0, batch(b"3"), 2)

    assert not is_resending(redirected, A, P0, batch(b"3"), 3)
    assert is_resending(redirected, A, P0, batch(b"2"), 3)


def test_after_some_time_a_client_is_told_again(redirected: RedirectedProducers) -> None:
    redirected.refused(A, P0, batch(), 0)
    redirected.refused(A, P0, batch(), REDIRECTS_REMEMBERED_S / 2)
    assert is_resending(redirected, A, P0, batch(), REDIRECTS_REMEMBERED_S - 1)

    assert not is_resending(redirected, A, P0, batch(), REDIRECTS_REMEMBERED_S)
    assert not redirected.told


def test_who_came_back_and_was_refused_nevertheless_has_to_come_back_again() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(b"1"), 0)
    assert is_resending(redirected, A, P0, batch(b"1"), 1)

    redirected.refused(A, P0, batch(b"1"), 5)

    assert not is_resending(redirected, A, P0, batch(b"2"), 6)
    assert is_resending(redirected, A, P0, batch(b"1"), 6)
    assert is_resending(redirected, A, P0, batch(b"2"), REDIRECTS_REMEMBERED_S + 4)
    assert not is_resending(redirected, A, P0, batch(b"2"), REDIRECTS_REMEMBERED_S + 5)


def test_who_is_right_to_ask_here_is_told_anew_when_that_has_changed() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(b"1"), 0)
    assert is_resending(redirected, A, P0, batch(b"1"), 1)
    redirected.forget(A, P0)

    assert not is_resending(redirected, A, P0, batch(b"2"), 2)
    redirected.refused(A, P0, batch(b"2"), 2)
    assert not is_resending(redirected, A, P0, batch(b"3"), 3)
    assert is_resending(redirected, A, P0, batch(b"2"), 3)


def test_a_batch_that_was_refused_first_is_forgotten_with_its_client() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(), 0)
    redirected.forget(A, P0)

    assert not is_resending(redirected, A, P0, batch(), 1), "nobody was told since"
    assert not is_resending(redirected, ALSO_A, P0, batch(), 1)


def test_nobody_is_known_after_some_time_in_which_nobody_came_back() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(), 0)

    redirected.forget_old(REDIRECTS_REMEMBERED_S - 1)
    assert redirected.told
    redirected.forget_old(REDIRECTS_REMEMBERED_S)
    assert not redirected.told


def test_of_too_many_the_oldest_are_forgotten(redirected: RedirectedProducers) -> None:
    for number in range(REDIRECTS_REMEMBERED_MAX + 1):
        redirected.refused(A, TopicPartition("t", number), batch(), 0)

    assert not is_resending(redirected, A, P0, batch(), 1)
    assert is_resending(redirected, A, P1, batch(), 1)
    assert is_resending(redirected, A, TopicPartition("t", REDIRECTS_REMEMBERED_MAX), batch(), 1)


def test_who_is_told_again_does_not_keep_others_longer(redirected: RedirectedProducers) -> None:
    for partition, now_s in ((P0, 0), (P1, 1)):
        redirected.refused(A, partition, batch(), now_s)
        assert is_resending(redirected, A, partition, batch(), now_s)
    redirected.refused(A, P0, batch(), 5)

    assert not is_resending(redirected, A, P1, batch(), REDIRECTS_REMEMBERED_S + 1)
    assert is_resending(redirected, A, P0, batch(), REDIRECTS_REMEMBERED_S + 1)


def test_a_batch_that_is_refused_again_does_not_keep_others_longer() -> None:
    redirected = RedirectedProducers()
    redirected.refused(A, P0, batch(), 0)
    redirected.refused(A, P1, batch(), 1)
    redirected.refused(ALSO_A, P0, batch(), 5)

    assert not is_resending(redirected, A, P1, batch(), REDIRECTS_REMEMBERED_S + 1)
    assert is_resending(redirected, A, P0, batch(), REDIRECTS_REMEMBERED_S + 1)
