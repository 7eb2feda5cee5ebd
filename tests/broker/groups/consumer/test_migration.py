"""Classic groups and consumer groups that become one another while their members live."""

from __future__ import annotations

from typing import Any

import pytest

from broker.groups.classic.groups import ClassicGroups
from broker.groups.consumer.group import Member, MemberState
from broker.groups.consumer.migration import encoded_assignment
from broker.groups.requests import (
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncedAssignment,
    SyncGroup,
)
from broker.groups.state import GroupKind, kind_of
from broker.groups.tables import Row
from jbodlab.group_records.values import ClassicMemberMetadata, ClassicProtocol
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicIdPartition
from tests.broker.groups.bench import FakeTopics, assigned, assignment, subscription
from tests.broker.groups.consumer.commits import commit
from tests.broker.groups.consumer.rig import GROUP, Rig, classic_join


def classic_group(rig: Rig, **shares: tuple[int, ...]) -> int:
    """Make a stable classic group of dynamic members; return its generation."""
    for name in shares:
        required = rig.answer(classic_join(client_id=name))
        rig.ask(classic_join(required.member_id, client_id=name))
        rig.advance(0)
    for _ in range(5):
        group = _classic(rig)
        ids = {member.client_id: member_id for member_id, member in group.members.items()}
        if group.state.value == "CompletingRebalance":
            break
        for member_id, member in group.members.items():
            if member.join is None:
                rig.ask(classic_join(member_id, client_id=member.client_id))
        rig.advance(1)
    group = _classic(rig)
    rig.ask(
        SyncGroup(
            group_id=GROUP,
            member_id=group.leader or "",
            generation_id=group.generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                SyncedAssignment(ids[name], assignment(*numbers))
                for name, numbers in shares.items()
            ),
        )
    )
    group = _classic(rig)
    assert group.state.value == "Stable"
    return group.generation


def _classic(rig: Rig) -> Any:
    group = ClassicGroups(rig.shard._state).find(GROUP)
    assert group is not None
    return group


def kind(rig: Rig) -> GroupKind | None:
    return kind_of(rig.shard.tables.written, GROUP)


def id_of(rig: Rig, client_id: str) -> str:
    """Return the id of the member with a client id, whatever kind the group is of."""
    members = _classic(rig).members if kind(rig) is GroupKind.CLASSIC else rig.group().members
    return next(member_id for member_id, each in members.items() if each.client_id == client_id)


def sync(rig: Rig, member_id: str) -> Any:
    """Return the partitions of topic `t`, or the error."""
    response = rig.classic_sync(member_id, rig.current(member_id).epoch)
    if isinstance(response, ErrorCode):
        return response
    if response.error_code is not ErrorCode.NONE:
        return response.error_code
    return assigned(response.assignment)


@pytest.fixture
def mixed_rig(rig: Rig) -> Rig:
    """A group of `a`, which has the new protocol, and `k`, which has the classic one."""
    rig.join("a")
    rig.classic_join("k")
    return rig


def test_empty_classic_group_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    rig = Rig(consumer_migration_policy="disabled")
    classic_group(rig, k=(0,))
    leave = LeaveGroup(group_id=GROUP, members=(LeavingMember(id_of(rig, "k")),))
    rig.answer(leave)
    rig.advance(1)

    assert rig.join("a").member_epoch == 1
    assert kind(rig) is GroupKind.CONSUMER
    assert rig.shard.tables.written.get(Row.CLASSIC, GROUP) is None


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade"])
def test_classic_members_go_on_with_what_they_have(policy: str) -> None:
    rig = Rig(FakeTopics(t=4), consumer_migration_policy=policy)
    generation = classic_group(rig, k=(0, 1), l=(2, 3))
    k, other = id_of(rig, "k"), id_of(rig, "l")

    answer = rig.join("a")

    assert answer.assignment == frozenset()
    assert rig.current(k).assigned.keys() == rig.ids(0, 1)
    assert rig.current(other).epoch == generation
    assert rig.group().epoch == generation + 1
    assert not rig.shard.tables.written.rows(Row.CLASSIC, GROUP)
    # Told to join, the two give one partition up.
    assert rig.classic_beat(k, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    rig.load()
    assert rig.classic_beat(k, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    for member_id, owned in ((k, (0, 1)), (other, (2, 3))):
        rig.classic_join(member_id, owned={"t": owned})
        kept = sync(rig, member_id)
        rig.classic_join(member_id, owned={"t": kept})
        assert set(sync(rig, member_id)) <= set(owned)
    assert len(rig.beat("a").assignment) == 1


def test_what_a_cooperative_member_has_yet_to_give_up_stays_its_own() -> None:
    rig = Rig(FakeTopics(t=2))
    classic_group(rig, k=(0, 1))
    k = id_of(rig, "k")
    generation = rig.ask(classic_join(k, owned={"t": (0, 1)}))
    rig.ask(
        SyncGroup(
            group_id=GROUP,
            member_id=k,
            generation_id=rig.answers[generation].generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncedAssignment(k, assignment(0)),),
        )
    )

    assert rig.join("a").assignment == frozenset()

    assert rig.current(k).state == MemberState.UNREVOKED
    rig.classic_join(k, owned={"t": (0,)})
    assert rig.beat("a").assignment == rig.ids(1)


def test_classic_member_that_was_removed_owns_nothing_any_longer(rig: Rig) -> None:
    rig.join("a")

    assert rig.classic_join("k", owned={"t": (0,)}).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.classic_join("k").error_code == ErrorCode.NONE


def test_first_target_of_an_upgraded_group_does_not_wait() -> None:
    rig = Rig(consumer_assignment_interval_ms=15_000)
    classic_group(rig, k=(0, 1))

    rig.join("a")

    assert rig.group().assignment_epoch == rig.group().epoch


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"consumer_migration_policy": "downgrade"}, {}),
        ({"consumer_migration_policy": "disabled"}, {}),
        ({"consumer_max_size": 1}, {}),
        ({}, {"protocol_type": "connect"}),
        ({}, {"metadata": b"\0\0"}),
        ({}, {"metadata": subscription("t", user_data=b"own")}),
    ],
)
def test_classic_group_that_cannot_be_upgraded_stays_what_it_is(
    settings: dict[str, Any], fields: dict[str, Any]
) -> None:
    rig = Rig(**settings)
    rig.ask(classic_join(version=3, **fields))
    rig.advance(1)

    assert rig.join("a") == ErrorCode.GROUP_ID_NOT_FOUND
    assert kind(rig) is GroupKind.CLASSIC


def test_heartbeat_to_a_classic_group_finds_no_consumer_group(rig: Rig) -> None:
    classic_group(rig, k=(0,))

    assert rig.beat("a", 3) == ErrorCode.GROUP_ID_NOT_FOUND


def test_parked_joins_are_told_to_join_again(rig: Rig) -> None:
    join = rig.ask(classic_join(version=3, client_id="k"))
    rig.advance(0)
    assert rig.answers[join].generation_id == 1
    late = rig.ask(classic_join(version=3, client_id="l"))
    assert late not in rig.answers

    rig.join("a")

    assert rig.answers[late].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not rig.shard.parked()


def test_partition_that_a_classic_assignor_gave_to_two_has_one_holder() -> None:
    rig = Rig(FakeTopics(t=2))
    classic_group(rig, k=(0, 1), l=(1,))

    rig.join("a")

    assert sorted(rig.group().holders) == sorted(rig.ids(0, 1))
    held = [p for current in rig.group().current.values() for p in current.held()]
    assert len(held) == len(set(held))


def test_classic_member_needs_an_id_first(rig: Rig) -> None:
    rig.join("a")

    required = rig.classic_join()

    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = rig.classic_join(required.member_id)
    assert joined.error_code == ErrorCode.NONE
    assert (joined.member_id, joined.leader, joined.members) == (required.member_id, "", ())
    assert joined.generation_id == rig.current(required.member_id).epoch
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert rig.classic_join(version=3).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("settings", "fields", "error"),
    [
        ({}, {"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"consumer_max_size": 1}, {}, ErrorCode.GROUP_MAX_SIZE_REACHED),
        (
            {"consumer_migration_policy": "disabled"},
            {},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        ({}, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"metadata": b"\0"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"group_instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_wrong_joins_of_classic_members_are_refused(
    settings: dict[str, Any], fields: dict[str, Any], error: ErrorCode
) -> None:
    rig = Rig(**settings)
    rig.join("a", instance_id="i")

    assert rig.classic_join("k", **fields).error_code == error
    assert rig.group().members.keys() == {"a"}


def test_classic_members_share_a_protocol(mixed_rig: Rig) -> None:
    other = (JoinProtocol("sticky", subscription("t")),)

    refused = mixed_rig.classic_join("l", protocols=other)

    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    both = (JoinProtocol("sticky", subscription("t")), JoinProtocol("range", subscription("t")))
    assert mixed_rig.classic_join("l", protocols=both).protocol_name == "sticky"


def test_classic_member_takes_part_in_the_reconciliation() -> None:
    rig = Rig(FakeTopics(t=4))
    rig.join("a")
    rig.classic_join("k", owned={})
    assert sync(rig, "k") == ()
    assert rig.classic_beat("k", rig.current("k").epoch) == ErrorCode.NONE

    told = rig.beat("a").assignment
    rig.beat("a", owned=told)
    # The partition that it waits for is free.
    assert rig.classic_beat("k", rig.current("k").epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    rig.classic_join("k", owned={})

    assert len(sync(rig, "k")) == 2
    assert rig.classic_beat("k", rig.current("k").epoch) == ErrorCode.NONE


def test_classic_member_hears_by_its_sync_what_it_is_to_give_up() -> None:
    rig = Rig(FakeTopics(t=6))
    rig.join("a")
    rig.classic_join("k")
    rig.settle("a")
    rig.classic_join("k", owned={})
    has = sync(rig, "k")
    rig.join("b")
    epoch = rig.current("k").epoch
    assert rig.classic_beat("k", epoch) == ErrorCode.REBALANCE_IN_PROGRESS

    joined = rig.classic_join("k", owned={"t": has})

    assert joined.generation_id == epoch
    assert rig.current("k").state == MemberState.UNREVOKED
    kept = sync(rig, "k")
    assert set(kept) < set(has)
    assert rig.classic_beat("k", epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    assert rig.classic_join("k", owned={"t": kept}).generation_id == rig.group().assignment_epoch


@pytest.mark.parametrize(
    ("member", "behind", "fields", "error"),
    [
        ("n", 0, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("a", 0, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("k", 0, {"group_instance_id": "j"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("k", 0, {"group_instance_id": "i"}, ErrorCode.FENCED_INSTANCE_ID),
        ("k", 1, {}, ErrorCode.ILLEGAL_GENERATION),
        ("k", 0, {"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("k", 0, {"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_wrong_syncs_and_heartbeats_of_classic_members_are_refused(
    rig: Rig, member: str, behind: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    rig.join("a", instance_id="i")
    rig.classic_join("k")
    generation = rig.current("k").epoch - behind

    assert rig.classic_sync(member, generation, **fields) == error
    if "protocol" not in "".join(fields):
        assert rig.classic_beat(member, generation, **fields) == error


def test_sync_of_an_old_generation_is_told_of_a_newer_target(mixed_rig: Rig) -> None:
    mixed_rig.join("b")

    assert sync(mixed_rig, "k") == ErrorCode.REBALANCE_IN_PROGRESS


def test_silent_classic_member_is_removed_at_the_end_of_its_own_session(mixed_rig: Rig) -> None:
    sync(mixed_rig, "k")
    mixed_rig.advance(9_999)
    assert "k" in mixed_rig.group().members

    mixed_rig.advance(1)

    assert "k" not in mixed_rig.group().members


def test_classic_member_that_is_told_to_join_and_does_not_is_removed(mixed_rig: Rig) -> None:
    sync(mixed_rig, "k")
    mixed_rig.join("b")
    epoch = mixed_rig.current("k").epoch
    for _ in range(3):
        assert mixed_rig.classic_beat("k", epoch) == ErrorCode.REBALANCE_IN_PROGRESS
        mixed_rig.advance(9_000)
    mixed_rig.classic_beat("k", epoch)
    mixed_rig.advance(3_000)

    assert "k" not in mixed_rig.group().members


def test_classic_member_that_is_told_by_its_sync_to_join_and_does_not_is_removed(rig: Rig) -> None:
    rig.join("a")
    rig.classic_join("k", session_timeout_ms=60_000)
    sync(rig, "k")
    rig.join("b")
    assert sync(rig, "k") == ErrorCode.REBALANCE_IN_PROGRESS

    rig.advance(30_000)

    assert "k" not in rig.group().members


def test_session_of_a_classic_member_is_its_own_after_a_load_too(mixed_rig: Rig) -> None:
    mixed_rig.load()

    mixed_rig.advance(9_999)
    assert "k" in mixed_rig.group().members
    mixed_rig.advance(1)
    assert mixed_rig.group().members.keys() == {"a"}


def test_classic_member_is_answered_in_the_version_of_its_subscription(rig: Rig) -> None:
    rig.join("a")
    rig.classic_join("k", metadata=subscription("t", version=1))

    response = rig.classic_sync("k", rig.current("k").epoch)

    assert response.assignment[:2] == b"\0\1"


def test_assignment_is_written_by_topic_in_the_version_of_the_subscription() -> None:
    topics = FakeTopics(t=4, a=1)
    t, a = topics.topic_id("t"), topics.topic_id("a")
    assert t is not None
    assert a is not None
    assigned = dict.fromkeys(
        [TopicIdPartition(t, 3), TopicIdPartition(t, 1), TopicIdPartition(a, 0)], 1
    )

    def written(version: int) -> bytes:
        protocol = ClassicProtocol(name="range", metadata=subscription("t", version=version))
        classic = ClassicMemberMetadata(session_timeout_ms=1, supported_protocols=(protocol,))
        return encoded_assignment(Member(classic_member_metadata=classic), assigned, topics)

    partitions = b"\0\0\0\2\0\1a\0\0\0\1\0\0\0\0\0\1t\0\0\0\2\0\0\0\1\0\0\0\3"
    assert written(1) == b"\0\1" + partitions + b"\xff\xff\xff\xff"
    assert written(7)[:2] == b"\0\3"


def test_time_to_sync_begins_with_the_join(rig: Rig) -> None:
    rig.join("a")
    rig.classic_join("k", session_timeout_ms=60_000)
    sync(rig, "k")
    rig.join("b")
    rig.classic_beat("k", rig.current("k").epoch)
    rig.advance(29_000)
    rig.beat("a")
    rig.classic_join("k", session_timeout_ms=60_000)

    rig.advance(29_000)

    assert "k" in rig.group().members


def test_classic_member_that_never_syncs_is_removed(rig: Rig) -> None:
    rig.join("a")
    rig.classic_join("k", session_timeout_ms=60_000)

    rig.advance(30_000)

    assert "k" not in rig.group().members


def test_static_classic_member_takes_the_place_of_one_of_the_new_protocol() -> None:
    rig = Rig(FakeTopics(t=4))
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.settle()
    had = rig.current("a").assigned

    joined = rig.classic_join(group_instance_id="i")

    assert joined.member_id == "i-1000000-1"
    assert rig.current("i-1000000-1").assigned.keys() == had.keys()
    assert "a" not in rig.group().members


def test_static_classic_member_is_replaced_by_one_of_the_new_protocol(rig: Rig) -> None:
    rig.join("b")
    k = rig.classic_join(group_instance_id="i").member_id

    answer = rig.join("a", instance_id="i")

    assert answer.member_epoch > 0
    assert rig.group().members.keys() == {"a", "b"}
    assert rig.group().members["a"].classic_member_metadata is None
    assert not [key for key in rig.timers if k in key]


def test_members_leave_in_a_batch(rig: Rig) -> None:
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.classic_join("k")
    leaving = (
        LeavingMember("k"),
        LeavingMember("k"),
        LeavingMember("", "i"),
        LeavingMember("n"),
        LeavingMember("b", "i"),
    )

    response = rig.answer(LeaveGroup(group_id=GROUP, members=leaving))

    assert [each.error_code for each in response.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert rig.group().members.keys() == {"b"}


def mixed(rig: Rig) -> dict[str, tuple[int, ...]]:
    """Make a group of `a` and two classic members that have what they shall have."""
    rig.join("a")
    shares: dict[str, tuple[int, ...]] = {"k": (), "l": ()}
    for _ in range(6):
        for member_id, has in shares.items():
            rig.classic_join(member_id, owned={"t": has})
            shares[member_id] = sync(rig, member_id)
        rig.beat("a", owned=rig.current("a").assigned)
    assert {len(each) for each in shares.values()} == {2}
    return shares


def test_last_member_of_the_new_protocol_leaves_a_classic_group() -> None:
    rig = Rig(FakeTopics(t=6))
    shares = mixed(rig)
    epoch = rig.group().epoch

    rig.beat("a", -1)

    assert kind(rig) is GroupKind.CLASSIC
    value = rig.shard.tables.written.get(Row.CLASSIC, GROUP)
    assert value.generation == epoch
    assert {member.member_id: assigned(member.assignment) for member in value.members} == shares
    group = _classic(rig)
    assert group.state.value == "PreparingRebalance"
    assert not [key for key in rig.timers if key[0] == "consumer"]
    assert rig.classic_beat("k", epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [rig.ask(classic_join(each)) for each in "kl"]
    assert {rig.answers[each].generation_id for each in tickets} == {epoch + 1}


def test_downgraded_group_may_be_upgraded_again() -> None:
    rig = Rig(FakeTopics(t=6))
    mixed(rig)
    rig.beat("a", -1)
    assert rig.beat("a", 1) == ErrorCode.GROUP_ID_NOT_FOUND

    rig.join("b")

    assert kind(rig) is GroupKind.CONSUMER
    assert rig.group().members.keys() == {"b", "k", "l"}
    assert len(rig.current("k").assigned) == 2


def test_last_member_of_the_new_protocol_is_removed_by_its_session() -> None:
    rig = Rig(FakeTopics(t=6))
    mixed(rig)

    for _ in range(5):
        rig.advance(9_000)
        for member_id in "kl":
            if kind(rig) is GroupKind.CONSUMER:
                rig.classic_beat(member_id, rig.current(member_id).epoch)

    assert kind(rig) is GroupKind.CLASSIC


def test_last_member_of_the_new_protocol_is_replaced_by_a_classic_one(rig: Rig) -> None:
    rig.join("a", instance_id="i")
    rig.classic_join("k")
    sync(rig, "k")

    ticket = rig.ask(classic_join(group_instance_id="i"))

    assert kind(rig) is GroupKind.CLASSIC
    other = rig.ask(classic_join("k"))
    assert rig.answers[ticket].generation_id == rig.answers[other].generation_id


@pytest.mark.parametrize("settings", [{"consumer_migration_policy": "upgrade"}, {"max_size": 1}])
def test_group_that_may_not_be_downgraded_stays(settings: dict[str, Any]) -> None:
    rig = Rig(FakeTopics(t=6), **settings)
    mixed(rig)

    rig.beat("a", -1)

    assert kind(rig) is GroupKind.CONSUMER
    assert rig.group().members.keys() == {"k", "l"}


def test_empty_consumer_group_becomes_a_classic_one(rig: Rig) -> None:
    rig.join("a")
    rig.beat("a", -1)

    rig.ask(classic_join(version=3))

    assert kind(rig) is GroupKind.CLASSIC
    assert not rig.shard.tables.written.rows(Row.EPOCH, GROUP)


def test_848_upgrade_downgrade_with_failovers() -> None:
    rig = Rig(FakeTopics(t=6))
    classic_group(rig, k=(0, 1), l=(2, 3), m=(4, 5))
    old = [id_of(rig, each) for each in "klm"]

    for member_id, new in zip(old, "abc", strict=True):
        rig.answer(LeaveGroup(group_id=GROUP, members=(LeavingMember(member_id),)))
        rig.join(new)
        rig.load()
        _one_holder_each(rig)
    rig.settle()
    assert [len(rig.current(each).assigned) for each in "abc"] == [2, 2, 2]

    for member_id, new in zip("abc", ("x", "y", "z"), strict=True):
        rig.classic_join(new)
        rig.beat(member_id, -1)
        rig.load()
        if kind(rig) is GroupKind.CONSUMER:
            _one_holder_each(rig)
    assert kind(rig) is GroupKind.CLASSIC


def _one_holder_each(rig: Rig) -> None:
    held = [p for current in rig.group().current.values() for p in current.held()]
    assert len(held) == len(set(held))


def test_classic_member_hears_of_its_generation_by_its_commits(mixed_rig: Rig) -> None:
    epoch = mixed_rig.current("k").epoch

    assert commit(mixed_rig, "k", epoch, version=8) == ErrorCode.NONE
    assert commit(mixed_rig, "k", epoch + 1, version=8) == ErrorCode.ILLEGAL_GENERATION
