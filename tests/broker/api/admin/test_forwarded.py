from __future__ import annotations

import asyncio
import datetime
from importlib import import_module
from typing import Any

import pytest

from jbodlab.controller_api import requests
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, Offset, TopicId
from tests.broker.api.conftest import DRAWN_ID
from tests.waiting import called

CREATE, DELETE, ADD_PARTITIONS, ELECT, ADD_VOTER, REMOVE_VOTER = 19, 20, 37, 43, 80, 81


def create(version: int = 7, timeout_ms: int = 5000, *, validate_only: bool = False) -> Any:
    kio = import_module(f"kio.schema.create_topics.v{version}.request")
    return kio.CreateTopicsRequest(
        topics=(
            kio.CreatableTopic(
                name="t",
                num_partitions=-1,
                replication_factor=-1,
                assignments=(kio.CreatableReplicaAssignment(partition_index=0, broker_ids=(2, 1)),),
                configs=(kio.CreatableTopicConfig(name="retention.ms", value="5"),),
            ),
            kio.CreatableTopic(
                name="old", num_partitions=3, replication_factor=2, assignments=(), configs=()
            ),
        ),
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        validate_only=validate_only,
    )


def created(topic_id: TopicId, offset: int = -1) -> requests.CreateTopicsResponse:
    config = requests.TopicConfigEntry(name="retention.ms", value="5", config_source=1)
    return requests.CreateTopicsResponse(
        topics=(
            requests.CreatedTopic(
                name="t",
                topic_id=topic_id,
                num_partitions=1,
                replication_factor=2,
                configs=(config,),
            ),
            requests.CreatedTopic(
                name="old",
                error_code=ErrorCode.TOPIC_ALREADY_EXISTS,
                error_message="Topic 'old' already exists.",
            ),
        ),
        metadata_offset=Offset(offset),
    )


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_creation_goes_to_the_controller_and_its_words_come_back(
    cluster: Any, client: Any, version: int
) -> None:
    topic_id = cluster.publish_topic("t")
    cluster.controller.results["CreateTopics"] = created(topic_id)

    response = await client.call(CREATE, version, create(version))

    assert cluster.controller.calls == [
        requests.CreateTopicsRequest(
            topics=(
                requests.NewTopic(
                    name="t",
                    assignments=((0, (BrokerId(2), BrokerId(1))),),
                    configs=(("retention.ms", "5"),),
                    topic_id=TopicId(DRAWN_ID),
                ),
                requests.NewTopic(
                    name="old",
                    num_partitions=3,
                    replication_factor=2,
                    topic_id=TopicId(DRAWN_ID),
                ),
            ),
            timeout_ms=5000,
            mutator=requests.Mutator(client_id="test", is_strict=version >= 6),
        )
    ]
    new, old = response.topics
    assert (new.name, int(new.error_code), new.error_message) == ("t", 0, None)
    assert (old.name, int(old.error_code)) == ("old", 36)
    assert old.error_message == "Topic 'old' already exists."
    if version >= 5:
        assert (new.num_partitions, new.replication_factor) == (1, 2)
        assert [(c.name, c.value, c.config_source) for c in new.configs] == [
            ("retention.ms", "5", 1)
        ]
    if version >= 7:
        assert new.topic_id == topic_id


async def test_creation_is_answered_when_this_broker_knows_the_topic(
    cluster: Any, client: Any
) -> None:
    topic_id = cluster.publish_topic("t")
    cluster.delete_topic("t")
    cluster.controller.results["CreateTopics"] = created(TopicId(topic_id), cluster.next_offset)

    call = asyncio.ensure_future(client.call(CREATE, 7, create()))
    await called(cluster.controller.calls)
    assert not call.done()
    cluster.publish_topic("t")
    assert int((await call).topics[0].error_code) == 0


@pytest.mark.parametrize(
    "request_entity", [create(timeout_ms=60), create(timeout_ms=0), create(validate_only=True)]
)
async def test_creation_is_answered_in_time_though_the_topic_never_shows(
    cluster: Any, client: Any, request_entity: Any
) -> None:
    topic_id = cluster.publish_topic("t")
    cluster.delete_topic("t")
    cluster.controller.results["CreateTopics"] = created(TopicId(topic_id), cluster.next_offset)
    response = await client.call(CREATE, 7, request_entity, timeout_s=4)
    assert int(response.topics[0].error_code) == 0
    assert cluster.controller.calls[0].validate_only == request_entity.validate_only


async def test_silent_controller_makes_the_client_try_again(cluster: Any, client: Any) -> None:
    cluster.controller.available = False
    response = await client.call(CREATE, 7, create(timeout_ms=250))
    assert [int(topic.error_code) for topic in response.topics] == [41, 41]


async def test_a_controller_that_is_away_for_a_moment_is_asked_again(
    cluster: Any, client: Any
) -> None:
    topic_id = cluster.publish_topic("t")
    cluster.controller.results["CreateTopics"] = created(topic_id)
    cluster.controller.unanswered = 2
    response = await client.call(CREATE, 7, create())
    assert [int(topic.error_code) for topic in response.topics] == [0, 36]
    assert len(cluster.controller.calls) == 3


async def test_a_creation_whose_answer_is_lost_is_sent_again_with_the_same_ids(
    cluster: Any, client: Any
) -> None:
    cluster.controller.results["CreateTopics"] = created(cluster.publish_topic("t"))
    cluster.controller.lost = 1
    response = await client.call(CREATE, 7, create())
    assert [int(topic.error_code) for topic in response.topics] == [0, 36]
    first, second = cluster.controller.calls
    assert first == second


async def test_a_deletion_whose_answer_is_lost_is_sent_again_for_the_same_topic(
    cluster: Any, client: Any
) -> None:
    kio = import_module("kio.schema.delete_topics.v5.request")
    topic_id = TopicId(cluster.publish_topic("t"))
    answer = requests.DeletedTopic(name="t", topic_id=topic_id)
    cluster.controller.results["DeleteTopics"] = requests.DeleteTopicsResponse(responses=(answer,))
    cluster.controller.lost = 1
    request = kio.DeleteTopicsRequest(
        topic_names=("t", "unknown"), timeout=datetime.timedelta(seconds=5)
    )
    await client.call(DELETE, 5, request)
    first, second = cluster.controller.calls
    assert first.topics == (
        requests.TopicToDelete(name="t"),
        requests.TopicToDelete(name="unknown"),
    )
    assert second.topics == (
        requests.TopicToDelete(name="t", topic_id=topic_id),
        requests.TopicToDelete(name="unknown"),
    )
    assert (first.is_again, second.is_again) == (False, True)


async def test_new_partitions_whose_answer_is_lost_are_asked_for_again(
    cluster: Any, client: Any
) -> None:
    kio = import_module("kio.schema.create_partitions.v3.request")
    cluster.controller.results["CreatePartitions"] = requests.CreatePartitionsResponse(results=())
    cluster.controller.lost = 1
    request = kio.CreatePartitionsRequest(
        topics=(), timeout=datetime.timedelta(seconds=5), validate_only=False
    )
    await client.call(ADD_PARTITIONS, 3, request)
    assert [each.is_again for each in cluster.controller.calls] == [False, True]


async def test_a_change_of_voters_whose_answer_is_lost_is_asked_for_again(
    cluster: Any, client: Any
) -> None:
    add = import_module("kio.schema.add_raft_voter.v1.request")
    remove = import_module("kio.schema.remove_raft_voter.v0.request")
    cluster.controller.results["AddRaftVoter"] = requests.AddRaftVoterResponse()
    cluster.controller.results["RemoveRaftVoter"] = requests.RemoveRaftVoterResponse()
    voter = {"cluster_id": None, "voter_id": BrokerId(4), "voter_directory_id": DRAWN_ID}
    adding = add.AddRaftVoterRequest(
        **voter,
        timeout=datetime.timedelta(seconds=5),
        listeners=(),
        ack_when_committed=True,
    )
    for key, version, request in (
        (ADD_VOTER, 1, adding),
        (REMOVE_VOTER, 0, remove.RemoveRaftVoterRequest(**voter)),
    ):
        cluster.controller.lost = 1
        await client.call(key, version, request)
    found = [each.is_again for each in cluster.controller.calls]
    assert found == [False, True, False, True]


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_deletion_waits_until_the_topic_is_gone_here(
    cluster: Any, client: Any, version: int
) -> None:
    kio = import_module(f"kio.schema.delete_topics.v{version}.request")
    topic_id = TopicId(cluster.publish_topic("t"))
    cluster.controller.results["DeleteTopics"] = requests.DeleteTopicsResponse(
        responses=(
            requests.DeletedTopic(name="t", topic_id=None),
            requests.DeletedTopic(
                name="u", topic_id=None, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            ),
        ),
        metadata_offset=cluster.next_offset,
    )
    names = (
        {
            "topics": (
                kio.DeleteTopicState(name="t", topic_id=None),
                kio.DeleteTopicState(name=None, topic_id=topic_id),
            )
        }
        if version >= 6
        else {"topic_names": ("t", "u")}
    )
    call = asyncio.ensure_future(
        client.call(
            DELETE,
            version,
            kio.DeleteTopicsRequest(timeout=datetime.timedelta(seconds=5), **names),
        )
    )
    await called(cluster.controller.calls)
    assert not call.done()
    cluster.advance()
    response = await call
    assert [(r.name, int(r.error_code)) for r in response.responses] == [("t", 0), ("u", 3)]
    second = (
        requests.TopicToDelete(topic_id=topic_id)
        if version >= 6
        else requests.TopicToDelete(name="u")
    )
    assert cluster.controller.calls == [
        requests.DeleteTopicsRequest(
            topics=(requests.TopicToDelete(name="t"), second),
            timeout_ms=5000,
            mutator=requests.Mutator(client_id="test", is_strict=version >= 5),
        )
    ]


async def test_new_partitions_are_waited_for(cluster: Any, client: Any) -> None:
    kio = import_module("kio.schema.create_partitions.v3.request")
    cluster.publish_topic("t")
    cluster.controller.results["CreatePartitions"] = requests.CreatePartitionsResponse(
        results=(
            requests.CreatePartitionsResult(name="t"),
            requests.CreatePartitionsResult(
                name="u", error_code=ErrorCode.INVALID_PARTITIONS, error_message="fewer"
            ),
        ),
        metadata_offset=cluster.next_offset,
    )
    request = kio.CreatePartitionsRequest(
        topics=(
            kio.CreatePartitionsTopic(
                name="t",
                count=2,
                assignments=(kio.CreatePartitionsAssignment(broker_ids=(2,)),),
            ),
            kio.CreatePartitionsTopic(name="u", count=1, assignments=None),
        ),
        timeout=datetime.timedelta(seconds=5),
        validate_only=False,
    )
    call = asyncio.ensure_future(client.call(ADD_PARTITIONS, 3, request))
    await called(cluster.controller.calls)
    assert not call.done()
    cluster.advance()
    response = await call
    assert [(r.name, int(r.error_code), r.error_message) for r in response.results] == [
        ("t", 0, None),
        ("u", 37, "fewer"),
    ]
    (sent,) = cluster.controller.calls
    assert sent.topics == (
        requests.PartitionsToAdd(name="t", count=2, assignments=((BrokerId(2),),)),
        requests.PartitionsToAdd(name="u", count=1),
    )
    assert sent.mutator == requests.Mutator(client_id="test", is_strict=True)


async def test_elections_are_waited_for(cluster: Any, client: Any) -> None:
    kio = import_module("kio.schema.elect_leaders.v2.request")
    cluster.publish_topic("t", cluster.partition(1), cluster.partition(2))
    cluster.controller.results["ElectLeaders"] = requests.ElectLeadersResponse(
        results=(
            requests.ElectionResult(topic="t", partition=0),
            requests.ElectionResult(
                topic="t", partition=1, error_code=ErrorCode.ELECTION_NOT_NEEDED
            ),
        ),
        metadata_offset=cluster.next_offset,
    )
    request = kio.ElectLeadersRequest(
        election_type=1,
        topic_partitions=(kio.TopicPartitions(topic="t", partitions=(0, 1)),),
        timeout=datetime.timedelta(seconds=5),
    )
    call = asyncio.ensure_future(client.call(ELECT, 2, request))
    await called(cluster.controller.calls)
    assert not call.done()
    cluster.advance()
    response = await call
    (topic,) = response.replica_election_results
    assert [(p.partition_id, int(p.error_code)) for p in topic.partition_result] == [
        (0, 0),
        (1, 84),
    ]
    assert cluster.controller.calls == [
        requests.ElectLeadersRequest(
            election_type=1, topic_partitions=(("t", 0), ("t", 1)), timeout_ms=5000
        )
    ]


async def test_more_topics_than_the_controller_takes_at_once_are_refused_without_it(
    cluster: Any, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.api.admin.forwarding.RECORDS_PER_REQUEST_MAX", 4)

    kio = import_module("kio.schema.create_topics.v7.request")
    topics = tuple(
        kio.CreatableTopic(
            name=f"t{n}", num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for n in range(3)
    )
    asked = kio.CreateTopicsRequest(
        topics=topics, timeout=datetime.timedelta(seconds=5), validate_only=False
    )
    response = await client.call(CREATE, 7, asked)
    assert {t.error_code.value for t in response.topics} == {ErrorCode.POLICY_VIOLATION}
    assert {t.error_message for t in response.topics} == {requests.TOO_LARGE}

    kio = import_module("kio.schema.delete_topics.v5.request")
    names = tuple(f"t{n}" for n in range(5))
    asked = kio.DeleteTopicsRequest(topic_names=names, timeout=datetime.timedelta(seconds=5))
    response = await client.call(DELETE, 5, asked)
    assert {r.error_code.value for r in response.responses} == {ErrorCode.POLICY_VIOLATION}
    assert cluster.controller.calls == []


async def test_a_deletion_of_no_topics_is_asked_in_every_version(cluster: Any, client: Any) -> None:
    for version, field in ((5, "topic_names"), (6, "topics")):
        kio = import_module(f"kio.schema.delete_topics.v{version}.request")
        asked = kio.DeleteTopicsRequest(timeout=datetime.timedelta(seconds=5), **{field: ()})
        cluster.controller.results["DeleteTopics"] = requests.DeleteTopicsResponse(responses=())

        response = await client.call(DELETE, version, asked)

        assert response.responses == ()
    assert [call.topics for call in cluster.controller.calls] == [(), ()]
