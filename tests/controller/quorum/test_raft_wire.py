"""Messages of the quorum: each value survives the wire, and what is of another cluster does not."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from controller.quorum.driver import Served
from controller.quorum.raft_wire import (
    LONG_MAX,
    SENT_IN,
    registration_message,
    registration_of,
    request_message,
    request_of,
    response_of,
)
from controller.serve.raft_apis import QUORUM_APIS, QuorumApi, QuorumParts
from jbodlab.kafka_wire.api_table import (
    ApiKey,
    request_encoder,
    request_reader,
    response_encoder,
    response_reader,
)
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterControllerRecord,
)
from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
)
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PlainResponse,
    QuorumFetchAnswer,
    QuorumFetchResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VersionsRequest,
    VersionsResponse,
    VoterChangeAnswer,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, VERSIONS, ReplicaKey
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch, Offset

CLUSTER = "cluster"
ONE = ReplicaKey(BrokerId(1), DirectoryId(UUID(int=11)))
TWO = ReplicaKey(BrokerId(2), DirectoryId(UUID(int=12)))
END = OffsetAndEpoch(Offset(40), LeaderEpoch(6))
HERE = (KRaftVoterEndpoint(name="CONTROLLER", host="host", port=9093),)
VOTE = VoteRequest(candidate=ONE, epoch=LeaderEpoch(7), voter=TWO, end=END, is_pre_vote=True)
BEGIN = BeginQuorumEpochRequest(
    leader_id=BrokerId(1), epoch=LeaderEpoch(7), endpoints=HERE, voter=TWO
)
END_EPOCH = EndQuorumEpochRequest(
    leader_id=BrokerId(1), epoch=LeaderEpoch(7), successors=(TWO, ONE), endpoints=HERE
)
FETCH = FetchRequest(
    replica=ONE, epoch=LeaderEpoch(7), end=END, max_wait_ms=500, max_bytes=1000, high_watermark=-1
)
FETCH_SNAPSHOT = FetchSnapshotRequest(
    replica=ONE, epoch=LeaderEpoch(7), snapshot=END, position=3, max_bytes=1000
)
MORE = (*HERE, KRaftVoterEndpoint(name="CONTROLLER_GRPC", host="host", port=9094))
ADD = AddVoterRequest(voter=ONE, endpoints=MORE, acks_commit=False, timeout_ms=2_000)
REMOVE = RemoveVoterRequest(voter=ONE)
UPDATE = UpdateVoterRequest(
    epoch=LeaderEpoch(7),
    voter=KRaftVoter(
        voter_id=1,
        voter_directory_id=ONE.directory_id,
        endpoints=MORE,
        k_raft_version_feature=VERSIONS,
    ),
)
REQUESTS = (VOTE, BEGIN, END_EPOCH, FETCH, FETCH_SNAPSHOT, ADD, REMOVE, UPDATE)
LEADER: dict[str, Any] = {
    "epoch": LeaderEpoch(7),
    "leader_id": BrokerId(1),
    "leader_endpoints": HERE,
}
NOBODY: dict[str, Any] = {"epoch": LeaderEpoch(7), "leader_id": None}
BATCH = build_batch(
    [(None, b"value")], base_offset=40, leader_epoch=7, timestamp_ms=1, attributes=0
)


def received(request: Request, cluster_id: str = CLUSTER) -> Request:
    """A request as its receiver sees it."""
    return received_in(SENT_IN, request, cluster_id)


def received_in(
    served: Mapping[int, range], request: Request, cluster_id: str = CLUSTER
) -> Request:
    """A request as a receiver sees it that serves such versions."""
    sent = request_message(request, CLUSTER, served)
    assert sent is not None
    key, version, message = sent
    pieces: list[bytes] = []
    request_encoder(key, version)(message, pieces.append)
    read, _ = request_reader(key, version, 1000)(b"".join(pieces), 0)
    return request_of(key, read, cluster_id)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_survives_the_wire(request_: Request) -> None:
    assert received(request_) == request_


def test_a_vote_for_nobody_in_particular_survives_the_wire() -> None:
    vote = VoteRequest(
        candidate=ReplicaKey(BrokerId(1)),
        epoch=LeaderEpoch(7),
        voter=None,
        end=END,
        is_pre_vote=False,
    )
    assert received(vote) == vote


UNKNOWN_ONE, UNKNOWN_TWO = ReplicaKey(BrokerId(1)), ReplicaKey(BrokerId(2))
KAFKA_3_7 = {
    **SENT_IN,
    ApiKey.VOTE: range(1),
    ApiKey.BEGIN_QUORUM_EPOCH: range(1),
    ApiKey.END_QUORUM_EPOCH: range(1),
    ApiKey.FETCH: range(17),
    ApiKey.FETCH_SNAPSHOT: range(1),
}
KAFKA_3_9 = {**SENT_IN, ApiKey.VOTE: range(2), ApiKey.FETCH: range(18)}


@pytest.mark.parametrize(
    ("request_", "seen"),
    [
        (
            replace(VOTE, is_pre_vote=False),
            replace(VOTE, is_pre_vote=False, candidate=UNKNOWN_ONE, voter=None),
        ),
        (BEGIN, replace(BEGIN, endpoints=(), voter=None)),
        (END_EPOCH, replace(END_EPOCH, endpoints=(), successors=(UNKNOWN_TWO, UNKNOWN_ONE))),
        (FETCH, replace(FETCH, replica=UNKNOWN_ONE, high_watermark=LONG_MAX)),
        (FETCH_SNAPSHOT, replace(FETCH_SNAPSHOT, replica=UNKNOWN_ONE)),
    ],
    ids=str,
)
def test_an_old_controller_is_told_what_its_versions_have_fields_for(
    request_: Request, seen: Request
) -> None:
    assert received_in(KAFKA_3_7, request_) == seen


def test_the_newest_version_is_sent_that_both_sides_have() -> None:
    newest = {**SENT_IN, ApiKey.VOTE: range(9), ApiKey.FETCH: range(4, 20)}

    def version(request: Request, served: Mapping[int, range]) -> int | None:
        sent = request_message(request, CLUSTER, served)
        return None if sent is None else sent[1]

    assert version(VOTE, newest) == 2
    assert version(FETCH, newest) == 18
    assert version(FETCH, KAFKA_3_9) == 17
    assert version(FETCH, KAFKA_3_7) == 16
    assert version(replace(VOTE, is_pre_vote=False), KAFKA_3_9) == 1
    # Nothing that is older than what both sides have, and no pre-vote that would become a vote.
    assert version(FETCH, {ApiKey.FETCH: range(4, 13)}) is None
    assert version(BEGIN, {}) is None
    assert version(VOTE, KAFKA_3_9) is None


@pytest.mark.parametrize(
    ("asked", "answer", "version"),
    [
        (VOTE, VoteResponse(is_granted=True, **NOBODY), 0),
        (BEGIN, BeginQuorumEpochResponse(**NOBODY), 0),
        (END_EPOCH, EndQuorumEpochResponse(**NOBODY), 0),
    ],
    ids=str,
)
def test_an_answer_of_the_oldest_version_survives_the_wire(
    asked: Request, answer: Any, version: int
) -> None:
    assert answered(asked, Served(answer), version) == answer


def test_the_answers_of_an_old_leader_name_no_endpoint() -> None:
    told = {**LEADER, "leader_endpoints": ()}

    fetched = answered(FETCH, Served(QuorumFetchAnswer(high_watermark=39, **LEADER)), 13)
    piece = answered(
        FETCH_SNAPSHOT, Served(FetchSnapshotAnswer(read=(END, 3, 1000), **LEADER), b"abc", 10), 0
    )

    assert fetched == QuorumFetchResponse(high_watermark=39, **told)
    assert (piece.leader_endpoints, piece.data) == ((), b"abc")


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_of_another_cluster_is_refused(request_: Request) -> None:
    with pytest.raises(KafkaError) as error:
        received(request_, "other")
    assert error.value.code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_vote_of_version_0_names_no_directories() -> None:
    import kio.schema.vote.v0.request as v0

    partition = v0.PartitionData(
        partition_index=0, replica_epoch=7, replica_id=1, last_offset_epoch=6, last_offset=40
    )
    message = v0.VoteRequest(
        cluster_id=None,
        topics=(v0.TopicData(topic_name="__cluster_metadata", partitions=(partition,)),),
    )

    vote = request_of(ApiKey.VOTE, message, CLUSTER)

    assert vote == VoteRequest(
        candidate=ReplicaKey(BrokerId(1), UNKNOWN_DIRECTORY),
        epoch=LeaderEpoch(7),
        voter=None,
        end=END,
        is_pre_vote=False,
    )


def test_the_successors_of_version_0_are_ids() -> None:
    import kio.schema.end_quorum_epoch.v0.request as v0

    partition = v0.PartitionData(
        partition_index=0, leader_id=1, leader_epoch=7, preferred_successors=(2, 3)
    )
    topic = v0.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
    message = v0.EndQuorumEpochRequest(cluster_id=CLUSTER, topics=(topic,))

    end = request_of(ApiKey.END_QUORUM_EPOCH, message, CLUSTER)

    assert isinstance(end, EndQuorumEpochRequest)
    assert end.successors == (ReplicaKey(BrokerId(2)), ReplicaKey(BrokerId(3)))
    assert end.endpoints == ()


@pytest.mark.parametrize(("topic", "index"), [("other", 0), ("__cluster_metadata", 1)])
def test_a_request_about_another_partition_is_refused(topic: str, index: int) -> None:
    import kio.schema.begin_quorum_epoch.v0.request as v0

    partition = v0.PartitionData(partition_index=index, leader_id=1, leader_epoch=7)
    message = v0.BeginQuorumEpochRequest(
        topics=(v0.TopicData(topic_name=topic, partitions=(partition,)),)
    )

    with pytest.raises(KafkaError) as error:
        request_of(ApiKey.BEGIN_QUORUM_EPOCH, message, CLUSTER)
    assert error.value.code == ErrorCode.INVALID_REQUEST


def answered(request: Request, served: Served, version: int | None = None) -> Any:
    """An answer as the asker sees it; in the newest version if none is given."""
    sent = request_message(request, CLUSTER, SENT_IN)
    assert sent is not None
    key, newest, _ = sent
    version = newest if version is None else version
    api = next(each for each in QUORUM_APIS if each.key == key)
    nobody: Any = None
    handler = api.handler(QuorumParts(CLUSTER, nobody, nobody, nobody, nobody))
    assert isinstance(handler, QuorumApi)
    data = b"".join(
        response_encoder(key, version)(handler._make(served, "CONTROLLER"), bytearray())
    )
    message, _ = response_reader(key, version)(data, 0)
    return response_of(request, message, "CONTROLLER")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (VOTE, VoteResponse(is_granted=True, **NOBODY)),
        (VOTE, VoteResponse(error=ErrorCode.FENCED_LEADER_EPOCH, **LEADER)),
        (BEGIN, BeginQuorumEpochResponse(error=ErrorCode.INVALID_VOTER_KEY, **LEADER)),
        (END_EPOCH, EndQuorumEpochResponse(**LEADER)),
    ],
    ids=str,
)
def test_an_answer_survives_the_wire(asked: Request, answer: Any) -> None:
    assert answered(asked, Served(answer)) == answer


@pytest.mark.parametrize(
    "fields",
    [
        {"high_watermark": 39, "log_start_offset": 3},
        {"diverging": OffsetAndEpoch(Offset(30), LeaderEpoch(5))},
        {"snapshot": OffsetAndEpoch(Offset(30), LeaderEpoch(5)), "high_watermark": 39},
        {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ],
    ids=str,
)
def test_a_fetch_answer_survives_the_wire(fields: dict[str, Any]) -> None:
    answer = answered(FETCH, Served(QuorumFetchAnswer(**LEADER, **fields)))

    known = {name: value for name, value in fields.items() if name != "log_start_offset"}
    assert answer == QuorumFetchResponse(**LEADER, **known)


def test_fetched_records_survive_the_wire() -> None:
    read = (Offset(40), Offset(41), 1000)

    answer = answered(FETCH, Served(QuorumFetchAnswer(read=read, **LEADER), BATCH))

    assert [each.data for each in answer.batches] == [BATCH]
    assert not answer.is_damaged


@pytest.mark.parametrize(
    ("served", "fields"),
    [
        ((b"abc", 10), {"size": 10, "position": 3, "data": b"abc", "snapshot": END}),
        ((b"", 0), {"error": ErrorCode.SNAPSHOT_NOT_FOUND}),
        ((b"", 2), {"error": ErrorCode.POSITION_OUT_OF_RANGE}),
    ],
)
def test_a_piece_of_a_snapshot_survives_the_wire(
    served: tuple[bytes, int], fields: dict[str, Any]
) -> None:
    answer = FetchSnapshotAnswer(read=(END, 3, 1000), **LEADER)

    found = answered(FETCH_SNAPSHOT, Served(answer, *served))

    assert isinstance(found, FetchSnapshotResponse)
    assert {name: getattr(found, name) for name in fields} == fields


def test_an_answer_about_a_voter_that_told_of_itself_names_the_leader() -> None:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER

    known = answered(UPDATE, Served(VoterChangeAnswer(error=error, **LEADER)))
    unknown = answered(UPDATE, Served(VoterChangeAnswer(**NOBODY)))

    assert known == UpdateVoterResponse(error=error, **LEADER)
    assert unknown == UpdateVoterResponse(**NOBODY)


@pytest.mark.parametrize("request_", [ADD, REMOVE], ids=lambda each: type(each).__name__)
def test_an_answer_about_a_change_is_an_error_or_nothing(request_: Request) -> None:
    assert answered(request_, Served(VoterChangeAnswer(**LEADER))) == PlainResponse()
    with pytest.raises(KafkaError) as refused:
        answered(request_, Served(VoterChangeAnswer(error=ErrorCode.DUPLICATE_VOTER, **LEADER)))
    assert refused.value.code is ErrorCode.DUPLICATE_VOTER


def test_who_tells_no_kraft_version_supports_level_0_only() -> None:
    import kio.schema.api_versions.v4.response as v4

    def told(*features: v4.SupportedFeatureKey) -> Any:
        message = v4.ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=(),
            throttle_time=datetime.timedelta(0),
            supported_features=features,
        )
        return response_of(VersionsRequest(), message, "CONTROLLER")

    feature = v4.SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    assert told(feature) == VersionsResponse(versions=VERSIONS)
    none = KRaftVersionFeature(min_supported_version=0, max_supported_version=0)
    assert told() == VersionsResponse(versions=none)


def test_the_registration_of_a_controller_is_that_of_the_request() -> None:
    record = RegisterControllerRecord(
        controller_id=101,
        incarnation_id=UUID(int=7),
        end_points=(BrokerEndpoint(name="C", host="h", port=9_093, security_protocol=0),),
        features=(BrokerFeature(name="f", min_supported_version=0, max_supported_version=1),),
    )
    assert registration_of(registration_message(record)) == record
