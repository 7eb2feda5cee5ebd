"""When offsets and groups go by themselves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.groups.requests import DeleteGroups, ListGroups
from broker.groups.settings import MINUTE_MS
from broker.groups.tables import Row, Table
from jbodlab.group_records.keys import OffsetCommitKey
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import OffsetCommitValue
from tests.broker.groups.bench import (
    SETTINGS,
    Bench,
    commit,
    fetched,
    zero_topic,
)

SHORT = replace(SETTINGS, offsets_retention_ms=MINUTE_MS, offsets_retention_check_interval_ms=1_000)


def names(bench: Bench) -> list[str]:
    return [group.group_id for group in bench.answer(ListGroups()) if group]


@pytest.fixture
def bench() -> Bench:
    return Bench(SHORT)


def deleted(bench: Bench, topic: str) -> None:
    """Let the shard hear that a topic was deleted, and look at its leisure."""
    bench.carry_out(bench.shard.topics_deleted({topic}, bench.now_ms))
    bench.advance(100)


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


@pytest.mark.parametrize("with_id", [True, False])
def test_topic_deleted_recreated(with_id: bool) -> None:
    bench = Bench()
    topic_id = {} if with_id else {"topic_id": zero_topic()}
    bench.ask(commit(1, **topic_id))
    bench.topics.create("t", 1)
    bench.ask(commit(2, partition=1, topic_id=bench.topics.topic_id("t")))

    deleted(bench, "t")

    assert fetched(bench) == {("t", 1): 2}


def test_offset_without_a_topic_id_that_was_committed_after_the_deletion_stays() -> None:
    bench = Bench()
    bench.ask(commit(1, topic_id=zero_topic()))
    bench.carry_out(bench.shard.topics_deleted({"t"}, bench.now_ms))
    bench.now_ms += 1
    bench.ask(commit(2, partition=1, topic_id=zero_topic()))

    bench.advance(10)

    assert fetched(bench) == {("t", 1): 2}


def test_look_that_has_begun_comes_to_what_it_visited_once_more_when_a_topic_is_deleted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.groups.expiry.SCANNED_AT_ONCE", 4)
    for group in "abcde":
        bench.ask(commit(1, group=group, topic_id=zero_topic()))
    bench.carry_out(bench.shard.timer(("offsets",), bench.now_ms))
    assert names(bench) == list("abcde")

    deleted(bench, "t")

    assert names(bench) == []


def test_pending_offset_of_a_deleted_topic_goes_too() -> None:
    bench = Bench()
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    bench.shard.replay(GroupRecord(key, OffsetCommitValue(offset=9)), 0, 1, producer_id=7)
    bench.topics.delete("t")

    bench.shard.apply(bench.shard.topics_deleted({"t"}, bench.now_ms))
    decision = bench.shard.timer(("offsets",), bench.now_ms)

    assert decision.records == (GroupRecord(key, None),)


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

    bench.carry_out(bench.shard.topics_deleted({"t"}, bench.now_ms))
    bench.carry_out(bench.shard.timer(("offsets",), bench.now_ms))
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


def test_a_step_asks_no_part_of_the_table_that_it_does_not_come_to(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jbodlab.vocabulary.large_dict.UNDIVIDED_MAX", 1)
    groups = [f"group {number}" for number in range(100)]
    for group in groups:
        bench.ask(commit(1, group=group))
    bench.advance(500)
    asked: list[int] = []
    groups_of_part = Table.groups_of_part

    def counting(table: Table, row: Row, number: int) -> tuple[str, ...]:
        found = groups_of_part(table, row, number)
        asked.append(len(found))
        return found

    monkeypatch.setattr(Table, "groups_of_part", counting)
    monkeypatch.setattr("broker.groups.expiry.SCANNED_AT_ONCE", 20)

    bench.carry_out(bench.shard.timer(("offsets",), bench.now_ms))

    assert sum(asked) < 40
    bench.advance(100_000)
    assert names(bench) == []
