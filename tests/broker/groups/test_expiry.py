"""When offsets and groups go by themselves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.groups.requests import DeleteGroups, DescribeGroups, ListGroups
from broker.groups.settings import MINUTE_MS
from jbodlab.group_records.keys import OffsetCommitKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import OffsetCommitValue
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    RANGE,
    SETTINGS,
    Bench,
    commit,
    fetched,
    join,
    joined,
    leave,
    stable,
    zero_topic,
)

SHORT = replace(SETTINGS, offsets_retention_ms=MINUTE_MS, offsets_retention_check_interval_ms=1_000)
ALIVE = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 1_800_000}


def names(bench: Bench) -> list[str]:
    return [group.group_id for group in bench.answer(ListGroups()).groups]


@pytest.fixture
def bench() -> Bench:
    return Bench(SHORT)


def test_offsets_expire_of_a_simple_group_after_its_commit_and_the_group_with_it() -> None:
    bench = Bench(SHORT)
    bench.ask(commit(1))
    bench.advance(30_000)
    bench.ask(commit(2, partition=1))

    bench.advance(31_000)
    assert fetched(bench) == {("t", 1): 2}
    bench.advance(31_000)

    assert fetched(bench) == {}
    assert names(bench) == []
    assert bench.shard.tables.written == Bench(SHORT).shard.tables.written


def test_offsets_expire_of_an_empty_group_after_it_became_empty(bench: Bench) -> None:
    (a,) = stable(bench, "a", **ALIVE)
    bench.ask(commit(1, member_id=a, generation_id_or_member_epoch=1))
    bench.advance(300_000)
    bench.ask(leave(a))

    bench.advance(59_000)
    assert fetched(bench) == {("t", 0): 1}
    bench.advance(3_000)

    assert fetched(bench) == {}
    assert names(bench) == []


def test_subscribed_topics_never_expire_others_do(bench: Bench) -> None:
    bench.ask(commit(1))
    bench.ask(commit(2, topic="u"))
    stable(bench, "a", **ALIVE)

    bench.advance(600_000)

    assert fetched(bench) == {("t", 0): 1}


@pytest.mark.parametrize("why", ["Preparing", "Completing", "no consumers", "unreadable"])
def test_nothing_expires_while_it_is_not_known_what_is_in_use(bench: Bench, why: str) -> None:
    bench.ask(commit(1, topic="u"))
    if why == "Completing":
        joined(bench, "a", **ALIVE)
    elif why == "no consumers":
        stable(bench, "a", protocol_type="connect", **ALIVE)
    elif why == "unreadable":
        stable(bench, "a", protocols=(RANGE[0]._replace(metadata=b"?"),), **ALIVE)
    else:
        stable(bench, "a", **ALIVE)
        bench.ask(join(version=3, **ALIVE))

    bench.advance(250_000)

    assert fetched(bench) == {("u", 0): 1}


def test_retention_time_of_the_client_takes_the_place_of_the_brokers(bench: Bench) -> None:
    bench.ask(commit(1, version=3, retention_time_ms=5_000))
    bench.ask(commit(1, version=3, retention_time_ms=500_000, partition=1))

    bench.advance(7_000)
    assert fetched(bench) == {("t", 1): 1}
    bench.advance(400_000)
    assert fetched(bench) == {("t", 1): 1}
    bench.advance(100_000)

    assert fetched(bench) == {}


def test_offset_with_a_pending_one_of_a_transaction_does_not_expire(bench: Bench) -> None:
    bench.ask(commit(1))
    bench.ask(commit(1, partition=1))
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=9, commit_timestamp=bench.now_ms)
    record = GroupRecord(key, value)
    shard = bench.fail_over().shard
    shard.replay(record, 2, 3, producer_id=7)

    decision = shard.timer(("offsets",), bench.now_ms + 100_000)

    assert [record.key for record in decision.records] == [
        OffsetCommitKey(group="g", topic="t", partition=1)
    ]


def test_empty_group_without_offsets_goes(bench: Bench) -> None:
    (a,) = stable(bench, "a")
    bench.ask(leave(a))

    bench.advance(2_000)

    assert names(bench) == []


def test_group_whose_next_member_has_its_id_already_stays(bench: Bench) -> None:
    member = bench.answer(join()).member_id

    bench.advance(5_000)

    assert bench.ask(join(member)) not in bench.answers


def test_topic_deleted() -> None:
    bench = Bench()
    bench.ask(commit(1))
    bench.ask(commit(2, topic="u"))
    bench.topics.delete("t")

    bench.carry_out(bench.shard.topics_deleted({"t"}))

    assert fetched(bench) == {("u", 0): 2}


@pytest.mark.parametrize("with_id", [True, False])
def test_topic_deleted_recreated(with_id: bool) -> None:
    bench = Bench()
    topic_id = {} if with_id else {"topic_id": zero_topic()}
    bench.ask(commit(1, **topic_id))
    bench.topics.create("t", 1)
    bench.ask(commit(2, partition=1, topic_id=bench.topics.topic_id("t")))

    bench.carry_out(bench.shard.topics_deleted({"t"}))

    assert fetched(bench) == {("t", 1): 2}


@pytest.mark.parametrize("is_created_again", [True, False])
def test_topic_deleted_while_the_shard_was_down(is_created_again: bool) -> None:
    bench = Bench()
    bench.ask(commit(1))
    bench.ask(commit(2, topic="u"))
    bench.topics.delete("t")
    if is_created_again:
        bench.topics.create("t", 1)

    after = bench.fail_over()
    after.advance(0)

    assert fetched(after) == {("u", 0): 2}
    assert after.log[-1][0] == GroupRecord(OffsetCommitKey(group="g", topic="t", partition=0), None)


def test_pending_offset_of_a_deleted_topic_goes_too() -> None:
    bench = Bench()
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    bench.shard.replay(GroupRecord(key, OffsetCommitValue(offset=9)), 0, 1, producer_id=7)
    bench.topics.delete("t")

    decision = bench.shard.topics_deleted({"t"})

    assert decision.records == (GroupRecord(key, None),)


def test_log_that_takes_nothing_is_tried_again(bench: Bench) -> None:
    bench.ask(commit(1))
    bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bench.advance(100_000)
    assert fetched(bench) == {("t", 0): 1}

    bench.refusal = None
    bench.advance(11_000)

    assert fetched(bench) == {}


def test_many_offsets_go_piece_by_piece(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.expiry.EXPIRED_AT_ONCE", 2)
    for partition in range(5):
        bench.ask(commit(1, partition=partition))

    bench.advance(62_000)

    assert fetched(bench) == {}
    ends = [end for _, end in bench.log[5:]]
    assert ends == [7, 7, 9, 9, 10]


def test_look_pauses_between_its_steps(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.groups.expiry.SCANNED_AT_ONCE", 4)
    for group in "abcde":
        bench.ask(commit(1, group=group))
    bench.advance(500)
    start = len(bench.log)
    bench.now_ms += 100_000

    steps = []
    for _ in range(3):
        bench.carry_out(bench.shard.timer(("offsets",), bench.now_ms))
        steps.append(len(bench.log) - start)

    assert steps == [2, 4, 5]
    assert bench.timers["offsets",] == bench.now_ms + 1_000
    assert names(bench) == []


def test_deleted_topic_with_more_offsets_than_a_batch_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("broker.groups.expiry.EXPIRED_AT_ONCE", 2)
    bench = Bench()
    for partition in range(4):
        bench.ask(commit(1, partition=partition))
    bench.topics.delete("t")

    bench.carry_out(bench.shard.topics_deleted({"t"}))
    assert len(fetched(bench)) == 2
    bench.advance(100)

    assert fetched(bench) == {}


def test_group_that_is_gone_in_the_middle_of_a_look_is_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.groups.expiry.SCANNED_AT_ONCE", 1)
    bench.ask(commit(1, group="a"))
    bench.ask(commit(1, group="b"))
    bench.carry_out(bench.shard.timer(("offsets",), bench.now_ms))

    bench.ask(DeleteGroups(groups_names=("b",)))
    bench.carry_out(bench.shard.timer(("offsets",), bench.now_ms))

    assert names(bench) == ["a"]


def test_living_group_is_described_as_before(bench: Bench) -> None:
    stable(bench, "a", **ALIVE)

    bench.advance(1_000_000)

    (group,) = bench.answer(DescribeGroups(groups=("g",))).groups
    assert group.group_state == "Stable"
