"""Rules of topics that the text scenario `topics.txt` does not show."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from controller.decide.partitions.added_partitions import create_partitions
from controller.decide.partitions.topics import create_topics, delete_topics
from jbodlab.controller_api.requests import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    NewTopic,
    PartitionsToAdd,
    TopicToDelete,
)
from jbodlab.metadata.records.topic_records import PartitionRecord, TopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, TopicId
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID
from tests.builders import PureController, brokers, directories, named_uuid

CONFIG = ErrorCode.INVALID_CONFIG
NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
FOO, BAR = TopicId(named_uuid("foo")), TopicId(named_uuid("id of bar"))


def cluster(level: int = 30, **settings: Any) -> PureController:
    controller = PureController(level=level, **settings)
    controller.add_broker(1, "A1,A2")
    controller.add_broker(2, "B1")
    controller.add_broker(3, "C1,C2")
    return controller


def create(
    controller: PureController, *topics: NewTopic, validate_only: bool = False
) -> CreateTopicsResponse:
    ids = iter(named_uuid(topic.name) for topic in topics * 2)
    decide = partial(create_topics, randomness=controller.random, new_id=lambda: next(ids))
    return controller.ask(decide, CreateTopicsRequest(topics=topics, validate_only=validate_only))


def grow(controller: PureController, *topics: PartitionsToAdd) -> CreatePartitionsResponse:
    decide = partial(create_partitions, randomness=controller.random)
    return controller.ask(decide, CreatePartitionsRequest(topics=topics))


def assigned(*replicas: tuple[int, ...]) -> tuple[tuple[int, tuple[BrokerId, ...]], ...]:
    return tuple((index, brokers(*each)) for index, each in enumerate(replicas))


def test_settings_of_a_new_topic_are_answered_in_order_with_their_sources() -> None:
    configs = (("retention.ms", "5"), ("min.insync.replicas", "2"))
    topic = NewTopic(name="foo", assignments=assigned((1, 2), (3, 1)), configs=configs)

    (answer,) = create(cluster(), topic).topics

    assert (answer.error_code, answer.topic_id) == (ErrorCode.NONE, FOO)
    assert (answer.num_partitions, answer.replication_factor) == (2, 2)
    found = {entry.name: (entry.value, entry.config_source) for entry in answer.configs}
    assert list(found) == sorted(found)
    assert found["retention.ms"] == ("5", 1)
    assert found["segment.bytes"] == ("1073741824", 5)


@pytest.mark.parametrize(("level", "version"), [(17, 1), (22, 1), (23, 2), (30, 2)])
def test_version_of_partition_records_follows_the_metadata_version(
    level: int, version: int
) -> None:
    controller = cluster(level=level)

    controller.create("foo", (1,))

    assert [each.version for each in controller.records] == [0, version]


def test_below_jbod_all_directories_are_migrating() -> None:
    controller = PureController(level=16)
    controller.register(1, "")
    controller.heartbeat(1)

    controller.create("foo", (1,))

    assert controller.partition("foo").directories == directories("MIGRATING")


def test_counts_default_to_the_settings() -> None:
    controller = cluster(num_partitions=4, default_replication_factor=3)

    answer = create(controller, NewTopic(name="foo"))

    assert (answer.topics[0].num_partitions, answer.topics[0].replication_factor) == (4, 3)
    partitions = controller.state.image.topics.by_name["foo"].partitions
    assert sorted(partitions) == [0, 1, 2, 3]
    assert {tuple(sorted(each.replicas)) for each in partitions.values()} == {(1, 2, 3)}


def test_validate_only_answers_the_same_and_writes_nothing() -> None:
    controller = cluster()

    answer = create(
        controller, NewTopic(name="foo", num_partitions=1, replication_factor=1), validate_only=True
    )

    assert answer.topics[0].error_code == ErrorCode.NONE
    assert answer.topics[0].topic_id == FOO
    assert controller.records == ()


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"name": ""}, NAME, "empty string"),
        ({"name": "x" * 250}, NAME, "249"),
        ({"name": "a b"}, NAME, "alphanumerics"),
        ({"name": "foo\n"}, NAME, "alphanumerics"),
        ({"configs": (("retention.ms", None),)}, CONFIG, "retention.ms"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_the_others_are_created(
    fields: dict[str, Any], code: ErrorCode, text: str
) -> None:
    controller = cluster()
    bad = {"name": "bad", "assignments": assigned((1,)), **fields}

    answer = create(controller, NewTopic(**bad), NewTopic(name="good", assignments=assigned((1,))))

    assert [each.error_code for each in answer.topics] == [code, ErrorCode.NONE]
    assert text in answer.topics[0].error_message
    assert answer.topics[0].topic_id is None
    assert [type(record) for record in controller.written()] == [TopicRecord, PartitionRecord]


def test_topics_that_the_controller_places_avoid_a_broker_that_leaves() -> None:
    controller = cluster()
    controller.create("led", (1,))
    controller.heartbeat(1, want_shut_down=True)

    answer = create(
        controller,
        NewTopic(name="new", num_partitions=6, replication_factor=2),
        NewTopic(name="wide", num_partitions=1, replication_factor=3),
    )

    assert [each.error_code for each in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ]
    assert "only 2 broker(s) are registered" in answer.topics[1].error_message
    placed = controller.state.image.topics.by_name["new"].partitions.values()
    assert {broker for each in placed for broker in each.replicas} == {2, 3}


def test_a_topic_named_twice_does_not_grow() -> None:
    controller = cluster()
    controller.create("foo", (1,))

    answer = grow(controller, *[PartitionsToAdd(name="foo", count=9)] * 2)

    assert {each.error_code for each in answer.results} == {ErrorCode.INVALID_REQUEST}
    assert controller.records == ()


def test_lists_without_elements_are_answered() -> None:
    controller = cluster()

    deleted = controller.ask(delete_topics, DeleteTopicsRequest(topics=()))

    assert create(controller).topics == ()
    assert grow(controller).results == ()
    assert deleted.responses == ()
    assert controller.records == ()


def test_topics_that_cannot_be_deleted() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    controller.create("bar", (1,))
    topics = (
        TopicToDelete(),
        TopicToDelete(name="bar", topic_id=TopicId(named_uuid("bar"))),
        TopicToDelete(name="foo"),
        TopicToDelete(topic_id=FOO),
        TopicToDelete(name="nope"),
        TopicToDelete(topic_id=TopicId(named_uuid("nope"))),
    )

    answer = controller.ask(delete_topics, DeleteTopicsRequest(topics=topics))

    assert [each.error_code for each in answer.responses] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    assert controller.records == ()


def test_deletion_may_be_disabled() -> None:
    controller = cluster(delete_topic_enable=False)
    controller.create("foo", (1,))

    answer = controller.ask(delete_topics, DeleteTopicsRequest(topics=(TopicToDelete(name="foo"),)))

    assert answer.responses[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert controller.records == ()


def test_ids_of_new_topics_are_not_those_of_others() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    drawn = iter([FOO, named_uuid("new")])

    decide = partial(create_topics, randomness=controller.random, new_id=lambda: next(drawn))
    topic = NewTopic(name="bar", assignments=assigned((1,)))
    answer = controller.ask(decide, CreateTopicsRequest(topics=(topic,)))

    assert answer.topics[0].topic_id == named_uuid("new") != ZERO_UUID


def test_a_creation_that_comes_again_finds_its_own_topic() -> None:
    controller = cluster()
    configs = (("retention.ms", "5"),)
    topic = NewTopic(name="foo", assignments=assigned((1, 2)), configs=configs, topic_id=BAR)
    (first,) = create(controller, topic).topics

    again = create(controller, topic)

    assert again.topics == (first,)
    assert (first.error_code, first.topic_id) == (ErrorCode.NONE, BAR)
    assert again.metadata_offset == controller.state.next_offset - 1
    assert not controller.written()
    (other,) = create(controller, replace(topic, topic_id=TopicId(named_uuid("other")))).topics
    assert other.error_code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_an_id_that_a_broker_has_drawn_is_that_of_one_topic() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    taken = NewTopic(name="bar", assignments=assigned((1,)), topic_id=FOO)
    twice = [
        NewTopic(name=name, assignments=assigned((1,)), topic_id=BAR) for name in ("one", "two")
    ]

    (created,) = create(controller, taken).topics
    refused = create(controller, *twice).topics

    assert created.topic_id == named_uuid("bar") != FOO
    assert {each.error_code for each in refused} == {ErrorCode.INVALID_REQUEST}


def test_a_deletion_that_comes_again_spares_a_new_topic_of_the_name() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    gone = TopicToDelete(name="foo", topic_id=TopicId(named_uuid("gone")))
    named = TopicToDelete(name="no")

    for is_again, error in ((True, ErrorCode.NONE), (False, ErrorCode.INVALID_REQUEST)):
        request = DeleteTopicsRequest(topics=(gone, named), is_again=is_again)
        answer = controller.ask(delete_topics, request)

        assert not controller.written()
        assert answer.responses[0].error_code is error
    assert answer.responses[1].error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again = DeleteTopicsRequest(topics=(replace(gone, topic_id=FOO), named), is_again=True)
    answer = controller.ask(delete_topics, again)
    assert [each.error_code for each in answer.responses] == [ErrorCode.NONE] * 2
    assert [each.name for each in answer.responses] == ["foo", "no"]
    assert "foo" not in controller.state.image.topics.by_name


def test_a_topic_that_has_the_partitions_already_may_be_asked_for_them_again() -> None:
    controller = cluster()
    controller.create("foo", (1,), (2,))
    decide = partial(create_partitions, randomness=controller.random)

    for is_again, error in ((True, ErrorCode.NONE), (False, ErrorCode.INVALID_PARTITIONS)):
        topics = (PartitionsToAdd(name="foo", count=2),)
        request = CreatePartitionsRequest(topics=topics, is_again=is_again)
        answer = controller.ask(decide, request)

        assert answer.results[0].error_code is error
        assert (answer.metadata_offset >= 0) is is_again


def test_topics_come_and_go_in_one_batch_of_records() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    topic = NewTopic(name="bar", assignments=assigned((1,)))

    created = create_topics(
        CreateTopicsRequest(topics=(topic,)),
        controller.state,
        0,
        randomness=controller.random,
        new_id=lambda: named_uuid("bar"),
    )
    grown = create_partitions(
        CreatePartitionsRequest(topics=(PartitionsToAdd(name="foo", count=2),)),
        controller.state,
        0,
        randomness=controller.random,
    )
    deleted = delete_topics(
        DeleteTopicsRequest(topics=(TopicToDelete(name="foo"),)), controller.state, 0
    )

    assert (created.atomic, grown.atomic, deleted.atomic) == (True, True, True)
