from __future__ import annotations

from functools import partial
from typing import Any

import pytest

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
from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.topic_records import PartitionRecord, RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from jbodlab.vocabulary.kafka_uuid import ZERO_UUID
from tests.builders import PureController, brokers, directories, named_uuid

CONFIG = ErrorCode.INVALID_CONFIG
PARTITIONS = ErrorCode.INVALID_PARTITIONS
FACTOR = ErrorCode.INVALID_REPLICATION_FACTOR
ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT
REQUEST = ErrorCode.INVALID_REQUEST
NAME = ErrorCode.INVALID_TOPIC_EXCEPTION
FOO = TopicId(named_uuid("foo"))


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


def test_records_of_a_topic_are_topic_configs_partitions() -> None:
    controller = cluster()

    answer = create(
        controller,
        NewTopic(
            name="foo",
            assignments=((1, brokers(3, 1)), (0, brokers(1, 2))),
            configs=(("retention.ms", "5"), ("min.insync.replicas", "2")),
        ),
    )

    first = {"topic_id": FOO, "leader_epoch": LeaderEpoch(0), "partition_epoch": PartitionEpoch(0)}
    assert controller.written() == [
        TopicRecord(name="foo", topic_id=FOO),
        ConfigRecord(resource_type=2, resource_name="foo", name="retention.ms", value="5"),
        ConfigRecord(resource_type=2, resource_name="foo", name="min.insync.replicas", value="2"),
        PartitionRecord(
            partition_id=0,
            replicas=brokers(1, 2),
            isr=brokers(1, 2),
            leader=BrokerId(1),
            directories=directories("UNASSIGNED,B1"),
            **first,  # type: ignore[arg-type]
        ),
        PartitionRecord(
            partition_id=1,
            replicas=brokers(3, 1),
            isr=brokers(3, 1),
            leader=BrokerId(3),
            directories=directories("UNASSIGNED,UNASSIGNED"),
            **first,  # type: ignore[arg-type]
        ),
    ]
    (topic,) = answer.topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, FOO)
    assert (topic.num_partitions, topic.replication_factor) == (2, 2)
    configs = {entry.name: entry for entry in topic.configs}
    assert list(configs) == sorted(configs)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].config_source) == (
        "1073741824",
        5,
    )


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


def test_a_fenced_replica_is_not_in_the_isr_and_does_not_lead() -> None:
    controller = cluster()
    controller.heartbeat(1, want_fence=True)

    controller.create("foo", (1, 2))

    assert controller.partition("foo").isr == brokers(2)
    assert controller.partition("foo").leader == 2
    assert controller.partition("foo").replicas == brokers(1, 2)


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
        ({"name": "__cluster_metadata"}, REQUEST, "prohibited"),
        ({"name": ""}, NAME, "empty string"),
        ({"name": "."}, NAME, "'.'"),
        ({"name": ".."}, NAME, "'..'"),
        ({"name": "x" * 250}, NAME, "249"),
        ({"name": "a b"}, NAME, "alphanumerics"),
        ({"name": "a/b"}, NAME, "alphanumerics"),
        ({"name": "foo\n"}, NAME, "alphanumerics"),
        ({"name": "a_b"}, NAME, "Topic 'a_b' collides with existing topic: a.b"),
        ({"name": "a.b"}, ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists."),
        ({"configs": (("retention.ms", None),)}, CONFIG, "retention.ms"),
        ({"configs": (("nonsense", "1"),)}, CONFIG, "Unknown topic config name: nonsense"),
        ({"configs": (("retention.ms", "x"),)}, CONFIG, "retention.ms"),
        ({"configs": (("min.insync.replicas", "0"),)}, CONFIG, "at least 1"),
        ({"replication_factor": 1}, REQUEST, "replication factor"),
        ({"num_partitions": 1}, REQUEST, "numPartitions"),
        (
            {"assignments": ((0, brokers(1)), (0, brokers(1)))},
            ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            {"assignments": assigned(())},
            ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            {"assignments": assigned((1, 9))},
            ASSIGNMENT,
            "includes broker 9, but no such broker is registered.",
        ),
        ({"assignments": assigned((-1,))}, ASSIGNMENT, "broker"),
        ({"assignments": assigned((1, 1))}, ASSIGNMENT, "includes the broker 1 more than once."),
        (
            {"assignments": assigned((1,), (1, 2))},
            ASSIGNMENT,
            "includes a partition with 2 replica(s), but this is not consistent with previous "
            "partitions, which have 1 replica(s).",
        ),
        (
            {"assignments": assigned((4,))},
            ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition 0 are fenced "
            "or in controlled shutdown.",
        ),
        (
            {"assignments": ((0, brokers(1)), (2, brokers(1)))},
            ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            {"assignments": ((1, brokers(1)),)},
            ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        ({"assignments": ((-1, brokers(1)),)}, ASSIGNMENT, ""),
        ({"assignments": (), "replication_factor": 0}, FACTOR, "larger than 0"),
        ({"assignments": (), "replication_factor": -2}, FACTOR, "larger than 0"),
        ({"assignments": (), "num_partitions": 0}, PARTITIONS, "non-positive"),
        ({"assignments": (), "num_partitions": -2}, PARTITIONS, "non-positive"),
        (
            {"assignments": (), "replication_factor": 9},
            FACTOR,
            "Unable to replicate the partition 9 time(s): The target replication factor of 9 "
            "cannot be reached because only 4 broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        ),
        (
            {"assignments": (), "num_partitions": 10_001},
            ErrorCode.POLICY_VIOLATION,
            "excessively large",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_the_others_are_created(
    fields: dict[str, Any], code: ErrorCode, text: str
) -> None:
    controller = cluster()
    controller.register(4, "D1")
    controller.create("a.b", (1,))
    bad = {"name": "bad", "assignments": assigned((1,)), **fields}

    answer = create(controller, NewTopic(**bad), NewTopic(name="good", assignments=assigned((1,))))

    assert [each.error_code for each in answer.topics] == [code, ErrorCode.NONE]
    assert text in answer.topics[0].error_message
    assert answer.topics[0].topic_id is None
    assert [type(record) for record in controller.written()] == [TopicRecord, PartitionRecord]


def test_a_name_twice_in_a_request_is_refused_once() -> None:
    controller = cluster()
    topic = NewTopic(name="foo", assignments=assigned((1,)))

    answer = create(controller, topic, topic)

    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("foo", ErrorCode.INVALID_REQUEST)
    ]
    assert controller.records == ()


def test_two_new_topics_may_not_collide() -> None:
    controller = cluster()

    answer = create(
        controller,
        NewTopic(name="a.b", assignments=assigned((1,))),
        NewTopic(name="a_b", assignments=assigned((1,))),
    )

    assert [each.error_code for each in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


def test_all_brokers_in_controlled_shutdown_cannot_hold_a_new_topic() -> None:
    controller = PureController()
    controller.add_broker(1, "A1")
    controller.create("foo", (1,))
    controller.heartbeat(1, want_shut_down=True)

    answer = create(controller, NewTopic(name="bar"))

    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


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


def test_all_brokers_fenced_cannot_hold_a_new_topic() -> None:
    controller = PureController()
    controller.register(1, "A1")

    answer = create(controller, NewTopic(name="foo", num_partitions=1, replication_factor=1))

    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert answer.topics[0].error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have "
        "all their log directories cordoned."
    )


def test_more_than_one_result_can_hold_is_refused_as_a_whole() -> None:
    controller = cluster()
    topics = [NewTopic(name=f"t{n}", num_partitions=4_000, replication_factor=1) for n in range(3)]

    with pytest.raises(KafkaError) as refused:
        create(controller, *topics)

    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert refused.value.message == "Unable to perform excessively large batch operation"
    assert "t0" not in controller.state.image.topics.by_name


def test_a_topic_does_not_grow_by_more_than_one_result_can_hold() -> None:
    controller = cluster()
    controller.create("foo", (1,))

    answer = grow(controller, PartitionsToAdd(name="foo", count=2_000_000_000))

    assert [(each.error_code, each.error_message) for each in answer.results] == [
        (ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation")
    ]
    assert controller.records == ()


def test_validated_growth_writes_nothing() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    request = CreatePartitionsRequest(
        topics=(PartitionsToAdd(name="foo", count=2),), validate_only=True
    )

    answer = controller.ask(partial(create_partitions, randomness=controller.random), request)

    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]
    assert controller.records == ()


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


def test_new_partitions_continue_the_indexes_with_the_same_factor() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))

    answer = grow(controller, PartitionsToAdd(name="foo", count=3))

    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]
    added = [record for record in controller.written() if isinstance(record, PartitionRecord)]
    assert [record.partition_id for record in added] == [1, 2]
    assert [len(record.replicas) for record in added] == [2, 2]


def test_new_partitions_may_be_assigned_by_hand() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))

    grow(controller, PartitionsToAdd(name="foo", count=2, assignments=(brokers(3, 1),)))

    assert controller.partition("foo", 1).replicas == brokers(3, 1)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "text"),
    [
        ("nope", 2, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not host"),
        ("foo", 1, None, PARTITIONS, "Topic already has 1 partition(s)."),
        (
            "foo",
            0,
            None,
            PARTITIONS,
            "The topic foo currently has 1 partition(s); 0 would not be an increase.",
        ),
        (
            "foo",
            3,
            (brokers(1, 2),),
            ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "foo",
            2,
            (brokers(1),),
            ASSIGNMENT,
            "not consistent with previous partitions, which have 2",
        ),
        ("foo", -1, None, PARTITIONS, "would not be an increase"),
        ("foo", 2, ((),), ASSIGNMENT, "empty replica list"),
        ("foo", 2, (brokers(2, 2),), ASSIGNMENT, "more than once"),
    ],
)
def test_growth_that_cannot_be_is_refused(
    name: str, count: int, assignments: Any, code: ErrorCode, text: str
) -> None:
    controller = cluster()
    controller.create("foo", (1, 2))

    answer = grow(controller, PartitionsToAdd(name=name, count=count, assignments=assignments))

    assert [each.error_code for each in answer.results] == [code]
    assert text in answer.results[0].error_message
    assert controller.records == ()


def test_too_few_brokers_for_new_partitions_have_the_bare_text() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    for broker in (1, 2, 3):
        controller.heartbeat(broker, want_fence=True)

    answer = grow(controller, PartitionsToAdd(name="foo", count=2))

    assert (
        answer.results[0].error_message
        == "All brokers are currently fenced, or have all their log directories cordoned."
    )


def test_deleting_is_one_record_per_topic_and_takes_its_configs_along() -> None:
    controller = cluster()
    controller.create("foo", (1,), configs=(("retention.ms", "1"),))
    controller.create("bar", (1,))

    answer = controller.ask(
        delete_topics,
        DeleteTopicsRequest(
            topics=(TopicToDelete(name="foo"), TopicToDelete(topic_id=TopicId(named_uuid("bar"))))
        ),
    )

    assert controller.written() == [
        RemoveTopicRecord(topic_id=FOO),
        RemoveTopicRecord(topic_id=TopicId(named_uuid("bar"))),
    ]
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("foo", ErrorCode.NONE),
        ("bar", ErrorCode.NONE),
    ]
    assert controller.state.image.configs.topic("foo") == {}


def test_the_name_of_a_deleted_topic_is_free() -> None:
    controller = cluster()
    controller.create("foo", (1,))
    deletion = DeleteTopicsRequest(topics=(TopicToDelete(name="foo"),))
    controller.ask(delete_topics, deletion)

    again = controller.ask(delete_topics, deletion)
    new = controller.create("foo", (2,))

    assert again.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert new.topics[0].error_code == ErrorCode.NONE


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


def test_topic_of_coordinators_is_compacted_and_never_gets_more_partitions() -> None:
    controller = cluster()
    configs = (("cleanup.policy", "compact"),)
    topic = NewTopic(
        name="__consumer_offsets", num_partitions=5, replication_factor=3, configs=configs
    )
    (created,) = create(controller, topic).topics
    assert created.error_code is ErrorCode.NONE

    (result,) = grow(controller, PartitionsToAdd(name="__consumer_offsets", count=9)).results

    assert result.error_code is ErrorCode.INVALID_PARTITIONS
    assert "internal topic" in result.error_message
    assert controller.records == ()
