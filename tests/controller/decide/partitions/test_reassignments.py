"""Rules that the text scenarios `reassignment*.txt` do not show."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.decide.partitions.reassignments import (
    alter_partition_reassignments,
    is_under_way,
    list_partition_reassignments,
)
from jbodlab.controller_api.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    OngoingReassignment,
    PartitionToReassign,
)
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.builders import PureController, brokers

Wish = tuple[str, int, tuple[int, ...] | None]


def cluster(level: int = 30, count: int = 4) -> PureController:
    controller = PureController(level=level)
    for broker in range(1, count + 1):
        controller.add_broker(broker, f"{broker}a,{broker}b")
    return controller


def request(*wishes: Wish, may_change_factor: bool = True) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        partitions=tuple(
            PartitionToReassign(
                topic=topic,
                partition=index,
                replicas=None if replicas is None else brokers(*replicas),
            )
            for topic, index, replicas in wishes
        ),
        allow_replication_factor_change=may_change_factor,
    )


def alter(controller: PureController, *wishes: Wish) -> AlterPartitionReassignmentsResponse:
    return controller.ask(alter_partition_reassignments, request(*wishes))


def change(controller: PureController) -> PartitionChangeRecord:
    (record,) = controller.written()
    assert isinstance(record, PartitionChangeRecord)
    return record


def test_old_levels_write_no_directories() -> None:
    controller = cluster(level=16)
    controller.create("foo", (1, 2))

    alter(controller, ("foo", 0, (3, 4)))

    assert change(controller).directories is None
    assert controller.partition("foo").directories == (directory_ids.MIGRATING,) * 4


def test_an_empty_target_is_refused() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))

    answer = alter(controller, ("foo", 0, ()))

    assert answer.results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert answer.results[0].error_message == (
        "The manual partition assignment includes an empty replica list."
    )
    assert controller.records == ()


def test_too_many_partitions_at_once_are_refused_as_a_whole() -> None:
    controller = cluster()
    for number in range(3):
        controller.create(f"t{number}", *([(1,)] * 4_000))
    wishes = [(f"t{n}", index, (2,)) for n in range(3) for index in range(4_000)]

    alter(controller, *wishes[:10_000])
    assert len(controller.records) == 10_000
    with pytest.raises(KafkaError) as refused:
        alter(controller, *(("t2", index, None) for index in range(2_000)), *wishes)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION


def test_what_is_written_counts_as_a_whole() -> None:
    controller = cluster()
    controller.create("foo", (1,), (1,))

    result = alter_partition_reassignments(
        request(("foo", 0, (2,)), ("foo", 1, (2,))), controller.state, 0
    )

    assert result.atomic
    assert len(result.records) == 2


def test_only_what_is_asked_for_and_under_way_is_listed() -> None:
    controller = cluster()
    controller.create("foo", (1,), (1,), (1,))
    alter(controller, ("foo", 0, (2,)), ("foo", 2, (3,)))
    image = controller.state.image
    first, last = (
        OngoingReassignment(
            topic="foo",
            partition=index,
            replicas=brokers(target, 1),
            adding_replicas=brokers(target),
            removing_replicas=brokers(1),
        )
        for index, target in ((0, 2), (2, 3))
    )

    def listed(*asked: tuple[str, int]) -> tuple[OngoingReassignment, ...]:
        wanted = ListPartitionReassignmentsRequest(topic_partitions=asked)
        return list_partition_reassignments(wanted, image).reassignments

    everything = list_partition_reassignments(ListPartitionReassignmentsRequest(), image)
    assert everything.reassignments == (first, last)
    assert listed(("foo", 2), ("foo", 1), ("bar", 0), ("foo", 9), ("foo", 2)) == (last,)
    assert listed() == ()


TARGETS = st.lists(st.integers(1, 5), min_size=1, max_size=4, unique=True).map(tuple)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("target"), TARGETS),
        st.tuples(st.just("cancel"), st.just(())),
        st.tuples(st.just("isr"), st.lists(st.integers(1, 5), unique=True).map(tuple)),
        st.tuples(st.just("fence"), st.tuples(st.integers(1, 5))),
        st.tuples(st.just("unfence"), st.tuples(st.integers(1, 5))),
    ),
    max_size=14,
)


@settings(max_examples=120)
@given(first=TARGETS, steps=STEPS)
def test_whatever_happens_the_lists_fit_together(
    first: tuple[int, ...], steps: list[tuple[str, tuple[int, ...]]]
) -> None:
    controller = cluster(count=5)
    controller.create("foo", first)
    for kind, numbers in steps:
        before = controller.partition("foo")
        match kind:
            case "target":
                alter(controller, ("foo", 0, numbers))
                after = controller.partition("foo")
                stays = [each for each in after.replicas if each not in after.removing_replicas]
                assert stays == list(numbers)
            case "cancel":
                alter(controller, ("foo", 0, None))
            case "isr":
                if before.leader > 0:
                    proposed = set(numbers) & set(before.replicas) | {before.leader}
                    controller.alter_isr(before.leader, "foo", tuple(sorted(proposed)))
            case _:
                controller.heartbeat(numbers[0], want_fence=kind == "fence")
        state = controller.partition("foo")
        assert len(set(state.replicas)) == len(state.replicas) == len(state.directories)
        assert state.replicas
        assert state.isr
        assert set(state.isr) <= set(state.replicas)
        assert state.leader == -1 or state.leader in state.isr
        assert set(state.adding_replicas) <= set(state.replicas)
        assert set(state.removing_replicas) <= set(state.replicas)
        assert not set(state.adding_replicas) & set(state.removing_replicas)
        if is_under_way(state):
            stays_set = set(state.replicas) - set(state.removing_replicas)
            assert not stays_set <= set(state.isr), "complete, and goes on"
        if any(each not in state.replicas for each in before.replicas):
            assert state.leader_epoch > before.leader_epoch
