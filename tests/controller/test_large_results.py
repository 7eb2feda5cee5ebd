"""Brokers with more replicas than a log batch has room for: nothing fails, and every cut is right.

A result that is not atomic may be cut by a crash between two of its batches. Work that is left to
do then is done by the next event of the same kind, or when the next controller begins.
"""

from __future__ import annotations

import copy
from functools import cache, partial
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from controller.decide.brokers.brokers import fence_stale_broker, heartbeat
from controller.decide.brokers.registration import register_broker, unregister_broker
from controller.decide.partitions.elections import elect_leaderless, elect_leaders
from controller.decide.partitions.topics import delete_topics
from controller.decide.state import ControllerState
from jbodlab.controller_api.requests import (
    DeleteTopicsRequest,
    ElectLeadersRequest,
    TopicToDelete,
    UnregisterBrokerRequest,
)
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.records.cluster_records import RegisterBrokerRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import PartitionRecord, TopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from tests.builders import SESSION_TIMEOUT_MS, PureController, brokers, directory, named_uuid
from tests.controller.formatted import format_dir
from tests.controller.shell import shell

LIMIT = 1_000
"""Records of a batch here, so that thousands of partitions are enough; really ten times that."""
COUNT = 2 * LIMIT + 100
TOPIC = TopicId(named_uuid("many"))
ONE = BrokerId(1)


@pytest.fixture(autouse=True)
def smaller_results(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        "lead.active_controller",
        "decide.settings.configs",
        "decide.brokers.registration",
        "decide.state",
    ):
        monkeypatch.setattr(f"controller.{module}.RECORDS_PER_RESULT_MAX", LIMIT)


@cache
def partition_records() -> tuple[PartitionRecord, ...]:
    first = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=brokers(1, 2),
        isr=brokers(1, 2),
        leader=ONE,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        directories=(directory("A1"), directory("B1")),
    )
    return tuple(replace(first, partition_id=index) for index in range(COUNT))


def cluster(level: int = 30) -> PureController:
    """Return a controller of its own with the state that all of this level begin with."""
    return copy.copy(_cluster(level))


@cache
def _cluster(level: int) -> PureController:
    controller = PureController(level=level)
    controller.add_broker(1, "A1,A2", incarnation_id=UUID(int=1))
    controller.add_broker(2, "B1")
    controller.replay(TopicRecord(name="many", topic_id=TOPIC), *partition_records())
    return controller


def leaders(state: ControllerState) -> set[tuple[int, tuple[int, ...], int, int]]:
    """Return what all partitions look like."""
    return {
        (each.leader, each.isr, each.leader_epoch, each.partition_epoch)
        for each in state.image.topics.by_id[TOPIC].partitions.values()
    }


def cut(controller: PureController, before: ControllerState, count: int) -> PureController:
    """Return a controller that found only the first records of a result in its log."""
    again = PureController()
    again.now_ms, again.state = controller.now_ms, before
    again._replay(controller.records[:count])
    return again


@pytest.mark.parametrize("how", ["timeout", "offline directory"])
def test_what_one_large_result_began_the_same_event_completes(how: str) -> None:
    controller = cluster()
    if how == "timeout":
        controller.advance(SESSION_TIMEOUT_MS + 1)
        controller.heartbeat(2)
    before = controller.state

    def happen(it: PureController) -> None:
        if how == "timeout":
            assert it.run(fence_stale_broker) == ONE
        else:
            it.heartbeat(1, offline_log_dirs="A1")

    happen(controller)

    assert len(controller.records) == COUNT + 1
    assert leaders(controller.state) == {(2, (2,), 1, 1)}
    for count in (LIMIT, 2 * LIMIT):
        again = cut(controller, before, count)
        assert not again.state.image.cluster.brokers[ONE].fenced
        assert directory("A1") in again.state.image.cluster.brokers[ONE].directories
        happen(again)
        assert len(again.records) == COUNT + 1 - count
        assert again.state.image.topics == controller.state.image.topics
        assert again.state.image.cluster == controller.state.image.cluster


def test_elections_of_an_unfencing_that_was_cut_are_made_by_the_next_controller() -> None:
    controller = cluster()
    controller.heartbeat(2, want_fence=True)
    controller.heartbeat(1, want_fence=True)
    assert leaders(controller.state) == {(-1, (1,), 1, 2)}
    before = controller.state

    controller.heartbeat(1)

    assert len(controller.records) == COUNT + 1
    again = cut(controller, before, LIMIT)
    assert not again.state.image.cluster.brokers[ONE].fenced
    again.run(elect_leaderless)
    assert again.state.image.topics == controller.state.image.topics
    again.run(elect_leaderless)
    assert again.records == ()


@pytest.mark.parametrize("level", [12, 30])
def test_a_registration_that_moves_everything_is_whole_or_right_at_every_cut(level: int) -> None:
    controller = cluster(level)
    controller.advance(SESSION_TIMEOUT_MS + 1)
    before = controller.state

    request = controller.registration(1, "A1,A2")
    result = register_broker(request, before, controller.now_ms)
    assert result.response.error_code == ErrorCode.NONE
    assert len(result.records) == COUNT + 1
    # Where there are transactions it is one of them; see `test_active_controller`.
    assert result.atomic == (level >= 13)
    controller.run(partial(register_broker, request))
    assert leaders(controller.state) == {(2, (2,), controller.partition("many").leader_epoch, 1)}

    again = cut(controller, before, LIMIT)
    again.run(partial(register_broker, request))
    assert again.state.image.topics == controller.state.image.topics
    assert len(again.records) == COUNT + 1 - LIMIT


def test_an_operator_may_not_cause_that_much_at_once() -> None:
    controller = cluster()
    with pytest.raises(KafkaError) as unregistering:
        controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=ONE))
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(2, want_fence=True)
    # It is back, and in nobody's ISR.
    controller.heartbeat(1)
    assert leaders(controller.state) == {(-1, (2,), 2, 2)}
    everywhere = ElectLeadersRequest(election_type=1, topic_partitions=None)
    with pytest.raises(KafkaError) as electing:
        controller.ask(elect_leaders, everywhere)

    assert unregistering.value.code == ErrorCode.POLICY_VIOLATION
    assert electing.value.code == ErrorCode.POLICY_VIOLATION
    # A broker that was stopped, and so has left all ISRs, is no trouble.
    controller.ask(unregister_broker, UnregisterBrokerRequest(broker_id=ONE))
    assert len(controller.records) == 1


def test_deleting_too_many_topics_at_once_is_refused() -> None:
    controller = PureController()
    names = [f"t{number}" for number in range(LIMIT + 1)]
    controller.replay(
        *(TopicRecord(name=name, topic_id=TopicId(named_uuid(name))) for name in names)
    )

    def deletion(count: int) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=tuple(TopicToDelete(name=name) for name in names[:count]))

    with pytest.raises(KafkaError) as refused:
        controller.ask(delete_topics, deletion(len(names)))
    controller.ask(delete_topics, deletion(LIMIT))

    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert list(controller.state.image.topics.by_name) == names[-1:]


async def test_large_results_reach_the_log_and_their_readers(tmp_path: Path) -> None:
    topic = VersionedRecord(TopicRecord(name="many", topic_id=TOPIC), 0)
    partitions = tuple(VersionedRecord(record, 1) for record in partition_records())

    async with shell(format_dir(tmp_path / "m", level=22)) as it:
        pure = PureController(level=22)

        async def ask(decide: partial[object]) -> None:
            await it.controller.submit(decide)  # type: ignore[arg-type]
            pure.state = it.controller.state

        for broker, dirs in ((1, "A1,A2"), (2, "B1")):
            await ask(partial(register_broker, pure.registration(broker, dirs)))
            await ask(partial(heartbeat, pure.sign_of_life(broker)))

        def create(state: ControllerState, now_ms: int) -> object:
            from controller.decide.state import ControllerResult

            return ControllerResult(response=None, records=(topic, *partitions), atomic=True)

        await ask(create)  # type: ignore[arg-type]
        await ask(partial(heartbeat, pure.sign_of_life(1, offline_log_dirs="A1")))
        assert leaders(it.controller.state) == {(2, (2,), 1, 1)}

        loader = MetadataLoader()
        types = []
        while data := it.log.read(loader.next_offset, 1 << 24):
            for batch in read_batches(data):
                loader.load(batch)
                types.append(type(batch.records[-1][1]))
        assert loader.image == it.controller.state.image
        assert not any(kind is RegisterBrokerRecord for kind in types[-3:])
