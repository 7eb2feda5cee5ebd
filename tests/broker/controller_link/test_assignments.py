from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest

from broker.controller_link.assignments import Assignment, AssignmentQueue
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import DirectoryId, TopicId, TopicIdPartition
from tests.broker.disks import directory_id

TOPIC = TopicId(UUID(int=1 << 80))
D1, D2 = directory_id(1), directory_id(2)


@pytest.fixture
def q() -> AssignmentQueue:
    return AssignmentQueue(random=lambda: 0.5)


def assignment(partition: int, directory: DirectoryId = D1) -> Assignment:
    return Assignment(partition=TopicIdPartition(TOPIC, partition), directory_id=directory)


def every(_assignment: Assignment) -> bool:
    return True


def answers(
    assignments: Iterable[Assignment], code: ErrorCode = ErrorCode.NONE
) -> dict[tuple[TopicIdPartition, DirectoryId], ErrorCode]:
    return {(each.partition, each.directory_id): code for each in assignments}


def test_assignments_of_one_change_go_in_one_request(q: AssignmentQueue) -> None:
    q.submit(assignment(0), 1_000)
    q.submit(assignment(1), 1_002)

    assert q.next_send_ms == 1_005
    assert q.take(every) == (assignment(0), assignment(1))
    assert q.pending_count == 2
    assert q.next_send_ms is None


def test_the_newest_assignment_of_a_partition_counts(q: AssignmentQueue) -> None:
    q.submit(assignment(0, D1), 0)
    q.submit(assignment(0, D2), 1)
    assert q.take(every) == (assignment(0, D2),)


def test_accepted_assignments_leave_the_queue(q: AssignmentQueue) -> None:
    q.submit(assignment(0), 0)
    sent = q.take(every)
    assert q.answered(answers(sent), 10) == sent
    assert q.pending_count == 0
    assert q.next_send_ms is None


def test_a_newer_assignment_survives_the_acceptance_of_an_older_one(q: AssignmentQueue) -> None:
    q.submit(assignment(0, D1), 0)
    sent = q.take(every)
    q.submit(assignment(0, D2), 5)

    q.answered(answers(sent), 10)

    assert q.next_send_ms == 10
    assert q.take(every) == (assignment(0, D2),)


def test_refused_and_unanswered_assignments_are_sent_again(q: AssignmentQueue) -> None:
    for partition in range(3):
        q.submit(assignment(partition), 0)
    sent = q.take(every)
    result = answers(sent[:1]) | answers(sent[1:2], ErrorCode.UNKNOWN_TOPIC_ID)

    assert q.answered(result, 1_000) == sent[:1]

    assert q.next_send_ms == 1_100
    assert q.take(every) == sent[1:]


def test_a_failed_request_is_repeated_after_a_growing_pause(q: AssignmentQueue) -> None:
    q.submit(assignment(0), 0)
    pauses = []
    now_ms = 1_000
    for _ in range(6):
        q.take(every)
        q.failed(now_ms)
        assert q.next_send_ms is not None
        pauses.append(q.next_send_ms - now_ms)
        now_ms = q.next_send_ms
    assert pauses == [100, 200, 400, 800, 1_000, 1_000]

    q.take(every)
    q.answered({}, now_ms)
    q.take(every)
    q.failed(now_ms)
    assert q.next_send_ms == now_ms + 100


def test_a_submission_does_not_cut_the_pause_after_a_failure_short(q: AssignmentQueue) -> None:
    q.submit(assignment(0), 0)
    q.take(every)
    q.failed(1_000)
    q.submit(assignment(1), 1_001)
    assert q.next_send_ms == 1_100


def test_after_a_failure_a_newer_assignment_stays(q: AssignmentQueue) -> None:
    q.submit(assignment(0, D1), 0)
    q.submit(assignment(1, D1), 0)
    q.take(every)
    q.submit(assignment(0, D2), 5)
    q.failed(10)
    assert set(q.take(every)) == {assignment(0, D2), assignment(1, D1)}


def test_assignments_of_replicas_that_are_gone_are_dropped(q: AssignmentQueue) -> None:
    q.submit(assignment(0), 0)
    q.submit(assignment(1), 0)
    assert q.take(lambda each: each.partition.partition == 1) == (assignment(1),)
    q.failed(0)
    assert q.take(lambda _each: False) == ()
    assert q.pending_count == 0


def test_a_request_carries_2250_assignments_at_most_and_the_rest_follows_at_once(
    q: AssignmentQueue,
) -> None:
    for partition in range(2251):
        q.submit(assignment(partition), 1_000)
    assert q.next_send_ms == 1_000

    sent = q.take(every)
    assert len(sent) == 2250
    q.answered(answers(sent), 1_010)

    assert q.next_send_ms is not None
    assert q.next_send_ms <= 1_010
    assert q.take(every) == (assignment(2250),)


def test_an_assignment_is_pending_until_it_is_accepted_and_the_newest_is_named(
    q: AssignmentQueue,
) -> None:
    key = assignment(0).partition
    assert q.pending(key) is None
    q.submit(assignment(0, D1), 0)
    sent = q.take(every)
    assert q.pending(key) == assignment(0, D1)
    q.submit(assignment(0, D2), 1)
    assert q.pending(key) == assignment(0, D2)
    assert {each.directory_id for each in q.all_pending()} == {D1, D2}
    q.answered(answers(sent), 2)
    assert q.pending(key) == assignment(0, D2)
    q.answered(answers(q.take(every)), 3)
    assert q.pending(key) is None


def test_assignments_in_flight_go_to_another_controller_without_a_pause(q: AssignmentQueue) -> None:
    q.submit(assignment(0), 0)
    q.take(every)
    q.controller_found(100)
    q.failed(110)
    assert q.next_send_ms == 110
    q.take(every)
    q.failed(120)
    assert q.next_send_ms is not None
    assert q.next_send_ms > 120


def test_assignments_that_wait_for_a_further_attempt_go_to_another_controller_at_once(
    q: AssignmentQueue,
) -> None:
    q.submit(assignment(0), 0)
    q.take(every)
    q.failed(10)
    q.controller_found(11)
    assert q.next_send_ms == 11
