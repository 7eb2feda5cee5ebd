from __future__ import annotations

from broker.groups.consumer.responses import AssignedTopic, DescribedConsumerGroup
from broker.groups.requests import ConsumerGroupDescribe, ListGroups
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.rig import GROUP, Rig, classic_join


def describe(rig: Rig, group_id: str = GROUP) -> DescribedConsumerGroup:
    response = rig.answer(ConsumerGroupDescribe(group_ids=(group_id,)))
    (group,) = response.groups
    return group


def test_group_is_described_with_its_members() -> None:
    rig = Rig(FakeTopics(t=2, u=1))
    rig.join("a", "t", "u", instance_id="i", rack_id="r", server_assignor="range")
    topic_id = rig.topics.topic_id("t")
    assert topic_id is not None
    rig.join("b", "t")

    group = describe(rig)

    assert (group.group_id, group.group_epoch, group.assignment_epoch) == (GROUP, 2, 2)
    assert (group.group_state, group.assignor_name) == ("Reconciling", "range")
    first, second = group.members
    assert (first.member_id, first.instance_id, first.rack_id) == ("a", "i", "r")
    assert (first.client_id, first.client_host) == ("c", "/1.2.3.4")
    assert (first.member_epoch, second.member_epoch) == (1, 2)
    assert first.subscribed_topic_names == ("t", "u")
    assert first.assignment.topic_partitions[0] == AssignedTopic(topic_id, "t", (0, 1))
    assert first.target_assignment.topic_partitions[0] == AssignedTopic(topic_id, "t", (0,))
    assert (second.assignment.topic_partitions, second.member_type) == ((), 1)


def test_states_follow_from_members_and_epochs() -> None:
    rig = Rig(consumer_assignment_interval_ms=1_000)
    rig.join("a")
    assert describe(rig).group_state == "Stable"

    rig.join("b")
    assert describe(rig).group_state == "Assigning"

    rig.advance(1_000)
    rig.beat("b")
    assert describe(rig).group_state == "Reconciling"
    rig.settle()
    assert describe(rig).group_state == "Stable"

    rig.beat("a", -1)
    rig.beat("b", -1)
    assert describe(rig).group_state == "Empty"
    listed = [*filter(None, rig.answer(ListGroups()))]
    assert [(each.group_state, each.group_type) for each in listed] == [("Empty", "Consumer")]


def test_member_that_has_not_come_since_the_last_target_is_not_there_yet() -> None:
    rig = Rig(FakeTopics(t=1, u=1))
    rig.join("a", "t")
    rig.join("b", "u")

    assert describe(rig).group_state == "Reconciling"


def test_unknown_and_classic_groups_are_not_found(rig: Rig) -> None:
    rig.ask(classic_join(version=3))

    for group_id in (GROUP, "other"):
        group = describe(rig, group_id)
        assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert group_id in (group.error_message or "")


def test_member_of_the_classic_protocol_is_shown_as_one(rig: Rig) -> None:
    rig.join("a")
    rig.classic_join("k")

    assert [each.member_type for each in describe(rig).members] == [1, 0]


def test_expression_is_shown(rig: Rig) -> None:
    rig.join("a", subscribed_topic_regex="t.*")

    assert describe(rig).members[0].subscribed_topic_regex == "t.*"


def test_topics_that_are_gone_are_not_shown(rig: Rig) -> None:
    rig.join("a")
    rig.topics.delete("t")

    assert describe(rig).members[0].assignment.topic_partitions == ()


def test_what_is_not_committed_is_not_described(rig: Rig) -> None:
    rig.join("a")
    rig.shard.committed_up_to(0)
    other = Rig(rig.topics)
    for offset, record in enumerate(rig.records):
        other.shard.replay(record, offset, offset + 1)

    assert describe(other).error_code == ErrorCode.GROUP_ID_NOT_FOUND
