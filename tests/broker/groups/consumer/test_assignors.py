from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from uuid import UUID

import pytest

from broker.groups.consumer.assignors import ASSIGNORS
from broker.groups.consumer.assignors.question import Question, Subscriber, Topic
from broker.groups.consumer.assignors.range import assign_ranges
from broker.groups.consumer.assignors.uniform import assign_uniformly
from broker.groups.consumer.group import Target
from jbodlab.vocabulary.ids import TopicId, TopicIdPartition

NO_RACKS = frozenset[str]()


def topic_id(number: int) -> TopicId:
    return TopicId(UUID(int=number + 1))


def topic(number: int, count: int, racks: str = "") -> Topic:
    """Racks: one word for each partition, one letter for each replica."""
    words = racks.split() or [""] * count
    return Topic(topic_id=topic_id(number), racks=tuple(frozenset(word) for word in words))


def ask(members: Mapping[str, str], *topics: Topic, **fields: Mapping[str, object]) -> Question:
    """Members with the numbers of the topics that they want, and other fields by member."""
    return Question(
        subscribers=tuple(
            Subscriber(
                member_id=member_id,
                topics=frozenset(topic_id(int(number)) for number in wanted),
                **{name: of[member_id] for name, of in fields.items() if member_id in of},  # type: ignore[arg-type]
            )
            for member_id, wanted in members.items()
        ),
        topics={each.topic_id: each for each in topics},
    )


def shares(result: Mapping[str, Target]) -> dict[str, str]:
    """Return partitions as text: topic, colon, partitions."""
    text = {}
    for member_id, partitions in result.items():
        by_topic: dict[int, list[str]] = {}
        for each in sorted(partitions):
            by_topic.setdefault(each.topic_id.int - 1, []).append(str(each.partition))
        text[member_id] = " ".join(f"{n}:{','.join(p)}" for n, p in by_topic.items())
    return text


def loads(result: Mapping[str, Target]) -> list[int]:
    return sorted(len(each) for each in result.values())


@pytest.mark.parametrize(
    ("members", "topics", "expected"),
    [
        ({"a": "0", "b": "0"}, [topic(0, 5)], {"a": "0:0,1,2", "b": "0:3,4"}),
        ({"b": "0", "a": "0", "c": "0"}, [topic(0, 2)], {"a": "0:0", "b": "0:1", "c": ""}),
        # Co-partitioned: the same numbers of both topics.
        (
            {"a": "01", "b": "01"},
            [topic(0, 3), topic(1, 3)],
            {"a": "0:0,1 1:0,1", "b": "0:2 1:2"},
        ),
        # Each topic is cut for its own subscribers.
        (
            {"a": "01", "b": "1"},
            [topic(0, 2), topic(1, 2)],
            {"a": "0:0,1 1:0", "b": "1:1"},
        ),
        ({"a": "", "b": "0"}, [topic(0, 2)], {"a": "", "b": "0:0,1"}),
    ],
)
def test_range_gives_contiguous_parts(members, topics, expected):
    assert shares(assign_ranges(ask(members, *topics))) == expected


def test_range_puts_static_members_first_by_instance_id():
    question = ask({"a": "0", "b": "0", "c": "0"}, topic(0, 3), instance_id={"b": "z", "c": "y"})

    assert shares(assign_ranges(question)) == {"c": "0:0", "b": "0:1", "a": "0:2"}


def test_range_takes_partitions_of_the_own_rack_within_its_share():
    racks = {"a": "y", "b": "x"}

    one = ask({"a": "0", "b": "0"}, topic(0, 4, "x x y y"), rack=racks)
    all_in_both = ask({"a": "0", "b": "0"}, topic(0, 4, "xy xy xy xy"), rack=racks)
    skewed = ask({"a": "0", "b": "0"}, topic(0, 4, "x x x x"), rack=racks)

    assert shares(assign_ranges(one)) == {"a": "0:2,3", "b": "0:0,1"}
    assert shares(assign_ranges(all_in_both)) == {"a": "0:0,1", "b": "0:2,3"}
    assert loads(assign_ranges(skewed)) == [2, 2]


def test_range_looks_for_the_rack_in_all_co_partitioned_topics():
    question = ask(
        {"a": "01", "b": "01"},
        topic(0, 2, "x y"),
        topic(1, 2, "y y"),
        rack={"a": "y"},
    )

    assert shares(assign_ranges(question)) == {"a": "0:1 1:1", "b": "0:0 1:0"}


@pytest.mark.parametrize(
    ("members", "topics", "expected"),
    [
        ({"a": "0", "b": "0", "c": "0"}, [topic(0, 12)], [4, 4, 4]),
        ({"a": "0", "b": "0", "c": "0"}, [topic(0, 7)], [2, 2, 3]),
        ({"a": "01", "b": "01"}, [topic(0, 1), topic(1, 2)], [1, 2]),
        # The one that can have nothing else takes the topic that both want.
        ({"a": "01", "b": "1"}, [topic(0, 4), topic(1, 4)], [4, 4]),
        ({"a": "", "b": "0"}, [topic(0, 3)], [0, 3]),
        ({"a": ""}, [], [0]),
    ],
)
def test_uniform_gives_as_many_to_each_as_subscriptions_allow(members, topics, expected):
    assert loads(assign_uniformly(ask(members, *topics))) == expected


def test_uniform_takes_no_more_away_than_a_new_member_needs():
    before = assign_uniformly(ask(dict.fromkeys("abc", "0"), topic(0, 12)))

    after = assign_uniformly(ask(dict.fromkeys("abcd", "0"), topic(0, 12), previous=before))

    assert loads(after) == [3, 3, 3, 3]
    assert all(after[member] <= before[member] for member in "abc")


def test_uniform_leaves_members_what_they_have_when_one_goes():
    before = assign_uniformly(ask(dict.fromkeys("abcd", "0"), topic(0, 12)))

    after = assign_uniformly(ask(dict.fromkeys("abc", "0"), topic(0, 12), previous=before))

    assert all(after[member] >= before[member] for member in "abc")


def test_uniform_forgets_what_is_gone_or_no_longer_wanted():
    had = frozenset({TopicIdPartition(topic_id(0), 7), TopicIdPartition(topic_id(1), 0)})

    result = assign_uniformly(ask({"a": "0"}, topic(0, 2), topic(1, 1), previous={"a": had}))

    assert shares(result) == {"a": "0:0,1"}


def test_uniform_prefers_the_own_rack_where_the_numbers_allow():
    racks = {"a": "x", "b": "y"}

    result = assign_uniformly(ask({"a": "0", "b": "0"}, topic(0, 6, "y x y x y x"), rack=racks))

    assert shares(result) == {"a": "0:1,3,5", "b": "0:0,2,4"}


def test_uniform_gives_a_new_member_of_another_rack_what_is_near_to_it():
    before = assign_uniformly(ask({"a": "0"}, topic(0, 4, "x y x y"), rack={"a": "x"}))

    after = assign_uniformly(
        ask(
            {"a": "0", "b": "0"},
            topic(0, 4, "x y x y"),
            rack={"a": "x", "b": "y"},
            previous=before,
        )
    )

    assert shares(after) == {"a": "0:0,2", "b": "0:1,3"}


def random_question(random: Random, previous: Mapping[str, Target], *, equal: bool) -> Question:
    topics = [
        topic(
            number, 0, " ".join(random.choice(["", "x", "xy", "yz"]) or "-" for _ in range(count))
        )
        for number, count in enumerate(random.choices(range(1, 9), k=random.randint(1, 4)))
    ]
    every = "".join(str(number) for number in range(len(topics)))
    members = {
        f"m{number}": every if equal else "".join(n for n in every if random.random() < 0.6)
        for number in random.sample(range(8), random.randint(1, 6))
    }
    rack = {member_id: random.choice([None, "x", "y", "z"]) for member_id in members}
    return ask(members, *topics, rack=rack, previous=previous)


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_assignors_give_every_partition_to_one_subscriber_and_answer_alike(name):
    random = Random(7)
    previous: Mapping[str, Target] = {}
    for _ in range(300):
        question = random_question(random, previous, equal=False)

        result = ASSIGNORS[name](question)

        assert result.keys() == {each.member_id for each in question.subscribers}
        given = Counter(partition for share in result.values() for partition in share)
        wanted = frozenset().union(*(each.topics for each in question.subscribers))
        assert given == Counter(
            partition for topic_id in wanted for partition in question.topics[topic_id].partitions()
        )
        for each in question.subscribers:
            assert {partition.topic_id for partition in result[each.member_id]} <= each.topics
        turned = Question(subscribers=question.subscribers[::-1], topics=question.topics)
        assert ASSIGNORS[name](turned) == result
        previous = result


def test_uniform_loads_differ_by_one_at_most_and_few_partitions_move():
    random = Random(8)
    previous: Mapping[str, Target] = {}
    for _ in range(300):
        question = random_question(random, previous, equal=True)

        result = assign_uniformly(question)

        assert loads(result)[-1] - loads(result)[0] <= 1
        assert (
            assign_uniformly(
                Question(
                    subscribers=tuple(
                        Subscriber(
                            member_id=each.member_id,
                            rack=each.rack,
                            topics=each.topics,
                            previous=result[each.member_id],
                        )
                        for each in question.subscribers
                    ),
                    topics=question.topics,
                )
            )
            == result
        )
        previous = result
