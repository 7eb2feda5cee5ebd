"""The APIs of groups: what a coordinator is asked, and what clients of each version are told."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest

from broker.groups import requests, responses
from broker.produce.transaction_admission import Part
from broker.replica.waiting.append_entries import BatchTransaction
from jbodlab.controller_api.requests import CreatedTopic, CreateTopicsResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import TopicId, TopicPartition

LOADING = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
NOT_AVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
OFFSETS = "__consumer_offsets"


def kio_request(name: str, version: int) -> Any:
    return import_module(f"kio.schema.{name}.v{version}.request")


def seconds(number: int) -> datetime.timedelta:
    return datetime.timedelta(seconds=number)


# FindCoordinator


async def found(client: Any, *groups: str, version: int = 6, key_type: int = 0) -> list[Any]:
    kio = kio_request("find_coordinator", version)
    if version >= 4:
        request = kio.FindCoordinatorRequest(key_type=key_type, coordinator_keys=groups)
        answer = await client.call(10, version, request)
        return list(answer.coordinators)
    types = {"key_type": key_type} if version else {}
    return [await client.call(10, version, kio.FindCoordinatorRequest(key=groups[0], **types))]


async def test_find_batched_names_the_leader_of_the_partition_of_each_group(
    cluster: Any, client: Any
) -> None:
    leaders = [1 if index != 12 else 2 for index in range(50)]
    leaders[2] = 3
    leaders[20] = -1
    cluster.publish_topic(OFFSETS, *(cluster.partition(leader) for leader in leaders))

    told = [
        (c.key, c.node_id, c.host, c.port, int(c.error_code))
        for c in await found(client, "g1", "my-group", "ü", "tx-1")
    ]

    assert told == [
        ("g1", 1, "host-1", 9091, 0),
        ("my-group", 2, "host-2", 9092, 0),
        # 3 is fenced, and the last has no leader.
        ("ü", -1, "", -1, 15),
        ("tx-1", -1, "", -1, 15),
    ]
    for version in range(4):
        (one,) = await found(client, "my-group", version=version)
        assert (one.node_id, one.port, int(one.error_code)) == (2, 9092, 0)


async def test_broker_does_not_name_itself_while_its_own_replica_is_offline(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic(OFFSETS, *(cluster.partition(1) for _ in range(50)))
    cluster.groups.offline.add(42)

    away, here = await found(client, "g1", "my-group")

    assert (int(away.error_code), away.node_id) == (15, -1)
    assert "__consumer_offsets-42 has no available leader" in away.error_message
    assert here.node_id == 1


@pytest.mark.stage(auto_create_topics=False)
async def test_first_question_after_a_coordinator_creates_the_topic(
    cluster: Any, client: Any
) -> None:
    cluster.controller.results["CreateTopics"] = CreateTopicsResponse(
        topics=(
            CreatedTopic(
                name=OFFSETS,
                error_code=ErrorCode.INVALID_REPLICATION_FACTOR,
                error_message="too few brokers",
            ),
        )
    )
    (one,) = await found(client, "g")
    assert (int(one.error_code), one.error_message) == (15, f"{OFFSETS} is being created")
    (asked,) = cluster.controller.calls
    assert [(t.name, t.num_partitions) for t in asked.topics] == [(OFFSETS, 50)]

    (one,) = await found(client, "g", version=3)
    assert int(one.error_code) == 15
    assert one.error_message == f"{OFFSETS} cannot be created: too few brokers"


@pytest.mark.parametrize(
    ("version", "key_type", "code", "words"),
    [
        (6, 2, 35, "does not support share groups"),
        (5, 2, 42, "unknown key type 2"),
        (6, 9, 42, "unknown key type 9"),
    ],
)
async def test_what_is_not_coordinated_is_refused_in_words(
    client: Any, version: int, key_type: int, code: int, words: str
) -> None:
    (one,) = await found(client, "key", version=version, key_type=key_type)
    assert int(one.error_code) == code
    assert words in one.error_message


# Members


def join(version: int, **fields: Any) -> Any:
    kio = kio_request("join_group", version)
    fields = {"group_id": "g", "member_id": "", **fields}
    if version >= 1:
        fields.setdefault("rebalance_timeout", seconds(60))
    return kio.JoinGroupRequest(
        session_timeout=seconds(10),
        protocol_type="consumer",
        protocols=(kio.JoinGroupRequestProtocol(name="range", metadata=b"m"),),
        **fields,
    )


@pytest.mark.parametrize("version", range(10))
async def test_member_joins_with_what_its_version_can_say(
    cluster: Any, client: Any, version: int
) -> None:
    cluster.groups.results[requests.JoinGroup] = responses.JoinGroupResponse(
        generation_id=4,
        protocol_type="consumer",
        protocol_name="range",
        leader="m1",
        member_id="m2",
        members=(responses.JoinedMember("m1", "i", b"x"),),
    )

    answer = await client.call(11, version, join(version))

    assert (answer.generation_id, answer.leader, answer.member_id) == (4, "m1", "m2")
    assert [(m.member_id, m.metadata) for m in answer.members] == [("m1", b"x")]
    (asked,) = cluster.groups.calls
    assert asked == requests.JoinGroup(
        version=version,
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000 if version else -1,
        protocols=(requests.JoinProtocol("range", b"m"),),
        client_id="test",
        client_host="/127.0.0.1",
    )


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
async def test_member_that_is_refused_hears_of_no_protocol(
    cluster: Any, client: Any, version: int, name: str | None
) -> None:
    cluster.groups.results[requests.JoinGroup] = responses.JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="given"
    )
    answer = await client.call(11, version, join(version))
    assert (int(answer.error_code), answer.member_id) == (79, "given")
    assert answer.protocol_name == name


def sync(version: int, group_id: str = "g") -> Any:
    kio = kio_request("sync_group", version)
    return kio.SyncGroupRequest(
        group_id=group_id,
        generation_id=4,
        member_id="m",
        assignments=(kio.SyncGroupRequestAssignment(member_id="m", assignment=b"a"),),
        **({"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}),
    )


def heartbeat(version: int, group_id: str = "g") -> Any:
    kio = kio_request("heartbeat", version)
    return kio.HeartbeatRequest(group_id=group_id, generation_id=4, member_id="m")


def leave(version: int, group_id: str = "g") -> Any:
    kio = kio_request("leave_group", version)
    if version < 3:
        return kio.LeaveGroupRequest(group_id=group_id, member_id="m")
    member = kio.MemberIdentity(member_id="m", group_instance_id=None)
    return kio.LeaveGroupRequest(group_id=group_id, members=(member,))


@pytest.mark.parametrize("version", range(6))
async def test_assignments_are_brought_and_taken(cluster: Any, client: Any, version: int) -> None:
    cluster.groups.results[requests.SyncGroup] = responses.SyncGroupResponse(
        protocol_type="consumer", protocol_name="range", assignment=b"mine"
    )
    answer = await client.call(14, version, sync(version))
    assert (int(answer.error_code), answer.assignment) == (0, b"mine")
    (asked,) = cluster.groups.calls
    assert asked.assignments == (requests.SyncedAssignment("m", b"a"),)
    assert (asked.protocol_type, asked.protocol_name) == (
        ("consumer", "range") if version >= 5 else (None, None)
    )


@pytest.mark.parametrize("version", range(6))
async def test_members_leave(cluster: Any, client: Any, version: int) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    cluster.groups.results[requests.LeaveGroup] = responses.LeaveGroupResponse(
        error_code=ErrorCode.NONE if version >= 3 else unknown,
        members=(responses.MemberResponse("m", None, unknown),),
    )
    answer = await client.call(13, version, leave(version))
    if version >= 3:
        assert [(m.member_id, int(m.error_code)) for m in answer.members] == [("m", 25)]
    else:
        assert int(answer.error_code) == 25
    assert cluster.groups.calls[0].members == (requests.LeavingMember("m"),)


@pytest.mark.parametrize(
    ("key", "asks", "request_of", "code"),
    [
        (11, requests.JoinGroup, lambda: join(9), 14),
        (14, requests.SyncGroup, lambda: sync(5), 27),
        (12, requests.Heartbeat, lambda: heartbeat(4), 0),
        (13, requests.LeaveGroup, lambda: leave(5), 14),
    ],
    ids=["join", "sync", "heartbeat", "leave"],
)
async def test_load_answers_throw_no_member_out(
    cluster: Any, client: Any, key: int, asks: type, request_of: Callable[[], Any], code: int
) -> None:
    cluster.groups.results[asks] = LOADING
    version = {11: 9, 14: 5, 12: 4, 13: 5}[key]
    answer = await client.call(key, version, request_of())
    assert int(answer.error_code) == code


async def test_empty_group_id_is_refused_where_it_means_nothing(cluster: Any, client: Any) -> None:
    delete = kio_request("offset_delete", 0).OffsetDeleteRequest(group_id="", topics=())
    for key, version, request in (
        (11, 9, join(9, group_id="")),
        (14, 5, sync(5, "")),
        (12, 4, heartbeat(4, "")),
        (13, 5, leave(5, "")),
        (47, 0, delete),
    ):
        assert int((await client.call(key, version, request)).error_code) == 24
    assert cluster.groups.calls == []


# Offsets


def commit(version: int, *topics: tuple[Any, tuple[int, ...]]) -> Any:
    kio = kio_request("offset_commit", version)
    named = "topic_id" if version >= 10 else "name"
    return kio.OffsetCommitRequest(
        group_id="g",
        member_id="m",
        generation_id_or_member_epoch=4,
        topics=tuple(
            kio.OffsetCommitRequestTopic(
                **{named: name},
                partitions=tuple(
                    kio.OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=100 + index, committed_metadata="x"
                    )
                    for index in indexes
                ),
            )
            for name, indexes in topics
        ),
    )


def all_committed(asked: requests.OffsetCommit) -> responses.OffsetResults:
    return responses.OffsetResults(
        topics=tuple(
            responses.TopicResponse(
                topic.name,
                tuple(
                    responses.PartitionResponse(each.partition_index, ErrorCode.NONE)
                    for each in topic.partitions
                ),
            )
            for topic in asked.topics
        )
    )


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_of_partitions_that_exist_are_committed(
    cluster: Any, client: Any, version: int
) -> None:
    topic_id = cluster.publish_topic("t", cluster.partition(1), cluster.partition(2))
    cluster.groups.results[requests.OffsetCommit] = all_committed
    known, unknown = ("t", "gone") if version < 10 else (topic_id, UUID(int=77))

    answer = await client.call(8, version, commit(version, (known, (1, 7)), (unknown, (0,))))

    assert [[int(p.error_code) for p in topic.partitions] for topic in answer.topics] == [
        [0, 3],
        [3 if version < 10 else 100],
    ]
    (asked,) = cluster.groups.calls
    assert asked.topics == (
        requests.CommitTopic("t", (requests.CommitPartition(1, 101, -1, "x"),), TopicId(topic_id)),
    )
    assert (asked.version, asked.member_id, asked.retention_time_ms) == (version, "m", -1)


async def test_commit_that_the_coordinator_refuses_fails_for_every_partition_that_exists(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("t")
    cluster.groups.later[requests.OffsetCommit] = KafkaError(ErrorCode.ILLEGAL_GENERATION)
    answer = await client.call(8, 8, commit(8, ("t", (0, 9)), ("gone", (0,))))
    codes = [[int(p.error_code) for p in topic.partitions] for topic in answer.topics]
    assert codes == [[22, 3], [3]]
    answer = await client.call(8, 8, commit(8, ("gone", (0,))))
    assert [int(p.error_code) for p in answer.topics[0].partitions] == [3]


# Offsets in transactions


def txn_commit(version: int, *topics: tuple[str, tuple[int, ...]], group_id: str = "g") -> Any:
    kio = kio_request("txn_offset_commit", version)
    member = {"generation_id": 4, "member_id": "m", "group_instance_id": "i"}
    return kio.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group_id,
        producer_id=7,
        producer_epoch=2,
        **(member if version >= 3 else {}),
        topics=tuple(
            kio.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    kio.TxnOffsetCommitRequestPartition(
                        partition_index=index, committed_offset=100 + index, committed_metadata="x"
                    )
                    for index in indexes
                ),
            )
            for name, indexes in topics
        ),
    )


def error_codes(answer: Any) -> list[list[int]]:
    return [[int(p.error_code) for p in topic.partitions] for topic in answer.topics]


@pytest.mark.parametrize("version", range(6))
async def test_offsets_in_a_transaction_are_committed_when_its_coordinator_agrees(
    cluster: Any, client: Any, version: int
) -> None:
    topic_id = cluster.publish_topic("t", cluster.partition(1), cluster.partition(2))
    cluster.replicas.results["admitted"] = None
    cluster.groups.results[requests.TxnOffsetCommit] = lambda asked: all_committed(asked.commit)

    answer = await client.call(28, version, txn_commit(version, ("t", (1, 7)), ("gone", (0,))))

    assert error_codes(answer) == [[0, 3], [3]]
    ((_, part),) = cluster.replicas.calls
    assert part == Part(
        TopicPartition("__consumer_offsets", 0),
        7,
        2,
        BatchTransaction(
            transactional_id="x", adds_partitions=version >= 5, knows_abortable=version >= 4
        ),
    )
    (asked,) = cluster.groups.calls
    assert asked.producer == (7, 2)
    member = (4, "m", "i") if version >= 3 else (-1, "", None)
    assert member == (
        asked.commit.generation_id_or_member_epoch,
        asked.commit.member_id,
        asked.commit.group_instance_id,
    )
    assert asked.commit.topics == (
        requests.CommitTopic("t", (requests.CommitPartition(1, 101, -1, "x"),), TopicId(topic_id)),
    )


@pytest.mark.parametrize(
    ("version", "error", "told"),
    [
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 15),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 14),
        (5, ErrorCode.NOT_ENOUGH_REPLICAS, 15),
        (5, ErrorCode.NOT_LEADER_OR_FOLLOWER, 16),
        (3, ErrorCode.TRANSACTION_ABORTABLE, 48),
        (4, ErrorCode.TRANSACTION_ABORTABLE, 120),
        (4, ErrorCode.CONCURRENT_TRANSACTIONS, 15),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, 51),
        (5, ErrorCode.INVALID_PRODUCER_EPOCH, 47),
        (5, ErrorCode.ILLEGAL_GENERATION, 22),
    ],
)
async def test_what_the_client_is_told_of_a_refused_commit_in_a_transaction(
    cluster: Any, client: Any, version: int, error: ErrorCode, told: int
) -> None:
    cluster.publish_topic("t")
    failed = asyncio.get_running_loop().create_future()
    failed.set_exception(KafkaError(error))
    cluster.replicas.results["admitted"] = failed

    answer = await client.call(28, version, txn_commit(version, ("t", (0, 9))))

    assert error_codes(answer) == [[told, 3]]
    assert not cluster.groups.calls
    cluster.replicas.results["admitted"] = None
    cluster.groups.later[requests.TxnOffsetCommit] = KafkaError(error)
    answer = await client.call(28, version, txn_commit(version, ("t", (0, 9))))
    assert error_codes(answer) == [[told, 3]]


async def test_a_commit_in_a_transaction_is_sent_to_its_coordinator(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic("t")
    cluster.groups.elsewhere.add("g")
    assert error_codes(await client.call(28, 5, txn_commit(5, ("t", (0,))))) == [[16]]
    assert error_codes(await client.call(28, 5, txn_commit(5, ("t", (0,)), group_id=""))) == [[24]]
    assert error_codes(await client.call(28, 5, txn_commit(5, ("gone", (0,))))) == [[3]]
    assert not cluster.replicas.calls


def fetch(version: int, **groups: dict[Any, tuple[int, ...]] | None) -> Any:
    kio = kio_request("offset_fetch", version)
    stable = {"require_stable": True} if version >= 7 else {}

    def topics(asked: dict[Any, tuple[int, ...]] | None, entity: Any) -> Any:
        named = "topic_id" if version >= 10 else "name"
        return None if asked is None else tuple(
            entity(**{named: name}, partition_indexes=indexes) for name, indexes in asked.items()
        )  # fmt: skip

    if version < 8:
        ((group_id, asked),) = groups.items()
        return kio.OffsetFetchRequest(
            group_id=group_id, topics=topics(asked, kio.OffsetFetchRequestTopic), **stable
        )
    return kio.OffsetFetchRequest(
        groups=tuple(
            kio.OffsetFetchRequestGroup(
                group_id=group_id, topics=topics(asked, kio.OffsetFetchRequestTopics)
            )
            for group_id, asked in groups.items()
        ),
        **stable,
    )


def offsets(asked: requests.OffsetFetch) -> responses.OffsetFetchResponse:
    """Partition 0 of `t` has offset 5, others none."""
    names = asked.topics or (requests.NamedPartitions("t", (0,)),)
    return responses.OffsetFetchResponse(
        group_id=asked.group_id,
        topics=tuple(
            responses.CommittedTopic(
                name,
                tuple(
                    responses.FetchedOffset(0, 5, 2, "x") if index == 0
                    else responses.FetchedOffset(index)
                    for index in indexes
                ),
            )
            for name, indexes in names
        ),
    )  # fmt: skip


@pytest.mark.parametrize("version", range(1, 11))
async def test_committed_offsets_are_told_and_of_others_that_there_are_none(
    cluster: Any, client: Any, version: int
) -> None:
    topic_id = cluster.publish_topic("t")
    cluster.groups.results[requests.OffsetFetch] = offsets
    named = topic_id if version >= 10 else "t"

    answer = await client.call(9, version, fetch(version, g={named: (0, 3)}))

    topics = answer.groups[0].topics if version >= 8 else answer.topics
    (topic,) = topics
    assert [(p.partition_index, p.committed_offset, int(p.error_code), p.metadata)
            for p in topic.partitions] == [(0, 5, 0, "x"), (3, -1, 0, "")]  # fmt: skip
    assert cluster.groups.calls[0].require_stable is (version >= 7)
    if version >= 2:
        answer = await client.call(9, version, fetch(version, g=None))
        topics = answer.groups[0].topics if version >= 8 else answer.topics
        assert [p.committed_offset for topic in topics for p in topic.partitions] == [5]
        assert cluster.groups.calls[1].topics is None


@pytest.mark.parametrize("version", [1, 5, 8, 9, 10])
async def test_offset_fetch_never_says_that_a_coordinator_is_not_available(
    cluster: Any, client: Any, version: int
) -> None:
    cluster.groups.results[requests.OffsetFetch] = NOT_AVAILABLE
    topic_id = cluster.publish_topic("t")
    named = topic_id if version >= 10 else "t"
    answer = await client.call(9, version, fetch(version, g={named: (0,)}))
    if version >= 8:
        assert [int(group.error_code) for group in answer.groups] == [16]
    else:
        assert [int(p.error_code) for p in answer.topics[0].partitions] == [16]
    if 2 <= version < 8:
        assert int(answer.error_code) == 16


async def test_load_answers_ask_clients_to_come_again(cluster: Any, client: Any) -> None:
    cluster.publish_topic(OFFSETS, *(cluster.partition(1) for _ in range(50)))
    cluster.publish_topic("t")
    cluster.groups.results[requests.OffsetCommit] = LOADING
    cluster.groups.results[requests.OffsetFetch] = LOADING

    committed = await client.call(8, 8, commit(8, ("t", (0,))))
    assert [int(p.error_code) for p in committed.topics[0].partitions] == [14]
    fetched = await client.call(9, 8, fetch(8, g={"t": (0,)}))
    assert [int(group.error_code) for group in fetched.groups] == [14]
    assert [int(each.error_code) for each in await found(client, "g")] == [0]


async def test_groups_of_another_broker_fail_alone(cluster: Any, client: Any) -> None:
    cluster.groups.elsewhere.add("away")
    cluster.groups.results[requests.OffsetFetch] = offsets
    answer = await client.call(9, 9, fetch(9, here={"t": (0,)}, away={"t": (0,)}))
    assert [(g.group_id, int(g.error_code), len(g.topics)) for g in answer.groups] == [
        ("here", 0, 1),
        ("away", 16, 0),
    ]


async def test_offsets_are_deleted_and_unknown_partitions_told(cluster: Any, client: Any) -> None:
    cluster.publish_topic("t")
    kio = kio_request("offset_delete", 0)
    request = kio.OffsetDeleteRequest(
        group_id="g",
        topics=tuple(
            kio.OffsetDeleteRequestTopic(
                name=name,
                partitions=tuple(
                    kio.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9)
                ),
            )
            for name in ("t", "gone")
        ),
    )
    subscribed = responses.PartitionResponse(0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    cluster.groups.results[requests.OffsetDelete] = responses.OffsetResults(
        topics=(responses.TopicResponse("t", (subscribed,)),)
    )

    answer = await client.call(47, 0, request)

    assert cluster.groups.calls[0].topics == (requests.NamedPartitions("t", (0,)),)
    assert [[int(p.error_code) for p in topic.partitions] for topic in answer.topics] == [
        [86, 3],
        [3, 3],
    ]
    cluster.groups.results[requests.OffsetDelete] = KafkaError(ErrorCode.NON_EMPTY_GROUP)
    answer = await client.call(47, 0, request)
    assert (int(answer.error_code), answer.topics) == (68, ())


# Administration


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_the_order_of_the_request(
    cluster: Any, client: Any, version: int
) -> None:
    kio = kio_request("describe_groups", version)
    cluster.groups.elsewhere.add("b")
    member = responses.DescribedMember("m", "i", "c", "/1.2.3.4", b"s", b"a")
    cluster.groups.results[requests.DescribeGroups] = lambda asked: (
        responses.DescribeGroupsResponse(
            groups=tuple(
                responses.DescribedGroup(group_id=g, group_state="Stable", members=(member,))
                for g in reversed(asked.groups)
            )
        )
    )
    operations = {"include_authorized_operations": True} if version >= 3 else {}

    answer = await client.call(
        15, version, kio.DescribeGroupsRequest(groups=("a", "b", "c"), **operations)
    )

    assert [(g.group_id, int(g.error_code), g.group_state) for g in answer.groups] == [
        ("a", 0, "Stable"),
        ("b", 16, ""),
        ("c", 0, "Stable"),
    ]
    assert [m.client_host for m in answer.groups[0].members] == ["/1.2.3.4"]
    if version >= 3:
        # READ, DELETE, DESCRIBE, and the configs of groups.
        assert answer.groups[0].authorized_operations == sum(1 << n for n in (3, 6, 8, 10, 11))


@pytest.mark.parametrize("version", range(6))
async def test_groups_of_all_shards_are_listed(cluster: Any, client: Any, version: int) -> None:
    kio = kio_request("list_groups", version)
    cluster.groups.results[requests.ListGroups] = [
        [responses.ListedGroup(name, "consumer", "Stable", "Classic")] for name in ("a", "b")
    ]
    filters: dict[str, Any] = {}
    if version >= 4:
        filters["states_filter"] = ("Stable",)
    if version >= 5:
        filters["types_filter"] = ("classic",)
    request = kio.ListGroupsRequest(**filters)

    answer = await client.call(16, version, request)

    assert [group.group_id for group in answer.groups] == ["a", "b"]
    assert cluster.groups.calls == [requests.ListGroups(**filters)]
    cluster.groups.results[requests.ListGroups] = LOADING
    answer = await client.call(16, version, request)
    assert (int(answer.error_code), answer.groups) == (14, ())


async def test_groups_are_deleted_each_with_its_own_result(cluster: Any, client: Any) -> None:
    cluster.groups.elsewhere.add("b")
    codes = {"a": ErrorCode.NONE, "c": ErrorCode.NON_EMPTY_GROUP}
    cluster.groups.results[requests.DeleteGroups] = lambda asked: responses.DeleteGroupsResponse(
        results=tuple(responses.DeletableGroupResult(g, codes[g]) for g in asked.groups_names)
    )
    for version in range(3):
        kio = kio_request("delete_groups", version)
        request = kio.DeleteGroupsRequest(groups_names=("c", "b", "a"))
        answer = await client.call(42, version, request)
        assert [(r.group_id, int(r.error_code)) for r in answer.results] == [
            ("c", 68),
            ("b", 16),
            ("a", 0),
        ]


# The topic


async def test_topic_of_coordinators_is_internal_and_written_by_brokers_only(
    cluster: Any, client: Any
) -> None:
    cluster.publish_topic(OFFSETS)
    cluster.publish_topic("t")
    kio = kio_request("metadata", 12)
    request = kio.MetadataRequest(topics=None, include_topic_authorized_operations=False)
    answer = await client.call(3, 12, request)
    assert {topic.name: topic.is_internal for topic in answer.topics} == {
        OFFSETS: True,
        "t": False,
    }
    kio = kio_request("describe_topic_partitions", 0)
    answer = await client.call(75, 0, kio.DescribeTopicPartitionsRequest(topics=(), cursor=None))
    assert [topic.is_internal for topic in answer.topics] == [True, False]
