"""Cases of groups of KIP-848 as a client sees them, each a short story."""

from __future__ import annotations

from broker.groups.consumer.group import MemberState
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.commits import commit
from tests.broker.groups.consumer.rig import REBALANCE_MS, Rig


def sizes(rig: Rig) -> list[int]:
    return sorted(len(each.assigned) for each in rig.group().current.values())


def test_848_join_leave(rig: Rig) -> None:
    for member_id in "abc":
        rig.join(member_id)
    rig.settle()
    assert sizes(rig) == [4, 4, 4]

    rig.beat("c", -1)
    rig.settle()

    assert sizes(rig) == [6, 6]


def test_848_slow_revoker(rig: Rig) -> None:
    rig.join("slow")
    rig.join("b")
    rig.join("c")
    rig.beat("slow")
    for _ in range(5):
        rig.advance(5_000)
        rig.beat("slow")
        for member_id in "bc":
            rig.beat(member_id)
            assert rig.current(member_id).state == MemberState.UNRELEASED

    rig.advance(REBALANCE_MS - 25_000)
    rig.settle("b", "c")

    assert rig.beat("slow", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert sizes(rig) == [6, 6]


def test_848_lost_answer(rig: Rig) -> None:
    first = rig.join("a")
    assert rig.join("a") == first

    rig.join("b")
    told = rig.beat("a").assignment
    rig.beat("a", owned=told)
    again = rig.beat("a", 1, told)
    assert (again.member_epoch, again.assignment) == (2, told)

    rig.beat("a", -1)
    assert rig.beat("a", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    rig.settle()
    assert sizes(rig) == [12]


def test_848_failover_mid_reconcile(rig: Rig) -> None:
    rig.join("a")
    rig.join("b")
    told = rig.beat("a").assignment

    rig.load()

    assert rig.current("a").state == MemberState.UNREVOKED
    assert rig.beat("b", 2).assignment is None
    assert rig.beat("a", 1, told).member_epoch == 2
    assert len(rig.beat("b", 2).assignment) == 6


def test_848_static(rig: Rig) -> None:
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.settle()
    had = rig.current("a").assigned.keys()

    assert rig.join("a2", instance_id="i") == ErrorCode.UNRELEASED_INSTANCE_ID
    rig.beat("a", -2, instance_id="i")

    assert rig.join("a2", instance_id="i").assignment == had


def test_848_regex() -> None:
    rig = Rig(FakeTopics(aa=1))
    rig.join("a", subscribed_topic_regex="a.*")
    rig.advance(0)
    rig.beat("a")
    rig.topics.create("ab", 1)
    for _ in range(3):
        rig.advance(5_000)
        rig.beat("a")

    assert rig.current("a").assigned.keys() == rig.ids(0, topic="aa") | rig.ids(0, topic="ab")
    assert rig.join("b", subscribed_topic_regex="a(") == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_848_commit_old_epoch() -> None:
    rig = Rig(FakeTopics(t=4))
    for member_id in "abc":
        rig.join(member_id)
    rig.settle()
    epoch, kept = rig.current("a").epoch, min(rig.current("a").assigned)
    rig.beat("b", -1)
    rig.beat("c", -1)
    rig.beat("a")
    new = min(p for p, since in rig.current("a").assigned.items() if since > epoch)

    assert commit(rig, "a", epoch, kept.partition) == ErrorCode.NONE
    assert commit(rig, "a", epoch, new.partition) == ErrorCode.STALE_MEMBER_EPOCH
