"""Requests and responses of the quorum as Kafka's messages.

A message has what the core does not know: the cluster id, and an array of topics with an array of
partitions, which have exactly one element each here. A request of another cluster or about another
partition is refused before the core sees it, with an error at the top of the response.

    request            asked in    answered in
    Vote               2           0 to 2      keys from 1, pre-votes from 2
    BeginQuorumEpoch   1           0 to 1      keys and endpoints from 1
    EndQuorumEpoch     1           0 to 1      directories of the successors from 1
    Fetch              18          13 to 18    directory from 17, high watermark from 18
    FetchSnapshot      1           0 to 1      directory from 1

Source: Kafka's messages of these names; `org.apache.kafka.raft.RaftUtil`.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, assert_never

from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.metadata.records.control_records import KRaftVoterEndpoint
from jbodlab.raft.batches import fetched_batches
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumFetchResponse,
    QuorumResponse,
    Request,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, Endpoints, ReplicaKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import DecodeError, KafkaError
from jbodlab.vocabulary.ids import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    Offset,
)

MILLISECOND = datetime.timedelta(milliseconds=1)
LONG_MAX = 2**63 - 1
"""High watermark of a replica that does not know of the field."""

ASKED_IN = {
    ApiKey.VOTE: 2,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH: 18,
    ApiKey.FETCH_SNAPSHOT: 1,
}
"""The version of each request that a controller sends."""


@cache
def messages(key: ApiKey) -> Any:
    """Return the module with the classes of a request, in the version that is sent."""
    return sys.modules[request_class(key, ASKED_IN[key]).__module__]


# Requests of this node.


def request_message(request: Request, cluster_id: str) -> tuple[ApiKey, Any]:
    """Return the API and the message of a request, in the version of `ASKED_IN`."""
    match request:
        case VoteRequest():
            return ApiKey.VOTE, _vote_message(request, cluster_id)
        case BeginQuorumEpochRequest():
            return ApiKey.BEGIN_QUORUM_EPOCH, _begin_message(request, cluster_id)
        case EndQuorumEpochRequest():
            return ApiKey.END_QUORUM_EPOCH, _end_message(request, cluster_id)
        case FetchRequest():
            return ApiKey.FETCH, _fetch_message(request, cluster_id)
        case FetchSnapshotRequest():
            return ApiKey.FETCH_SNAPSHOT, _fetch_snapshot_message(request, cluster_id)
        case _:
            assert_never(request)


def _vote_message(request: VoteRequest, cluster_id: str) -> Any:
    kind = messages(ApiKey.VOTE)
    voter_id, voter_directory = _voter_fields(request.voter)
    partition = kind.PartitionData(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=_directory_field(request.candidate),
        voter_directory_id=voter_directory,
        last_offset_epoch=request.end.epoch,
        last_offset=request.end.offset,
        pre_vote=request.is_pre_vote,
    )
    topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return kind.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=(topic,))


def _begin_message(request: BeginQuorumEpochRequest, cluster_id: str) -> Any:
    kind = messages(ApiKey.BEGIN_QUORUM_EPOCH)
    voter_id, voter_directory = _voter_fields(request.voter)
    partition = kind.PartitionData(
        partition_index=0,
        voter_directory_id=voter_directory,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return kind.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter_id,
        topics=(kind.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=_endpoint_fields(kind, request.endpoints),
    )


def _end_message(request: EndQuorumEpochRequest, cluster_id: str) -> Any:
    kind = messages(ApiKey.END_QUORUM_EPOCH)
    partition = kind.PartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=tuple(
            kind.ReplicaInfo(
                candidate_id=each.node_id, candidate_directory_id=_directory_field(each)
            )
            for each in request.successors
        ),
    )
    return kind.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=(kind.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        leader_endpoints=_endpoint_fields(kind, request.endpoints),
    )


def _fetch_message(request: FetchRequest, cluster_id: str) -> Any:
    kind = messages(ApiKey.FETCH)
    partition = kind.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.end.offset,
        last_fetched_epoch=request.end.epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=_directory_field(request.replica),
        high_watermark=request.high_watermark,
    )
    return kind.FetchRequest(
        cluster_id=cluster_id,
        replica_state=kind.ReplicaState(replica_id=request.replica.node_id),
        max_wait=request.max_wait_ms * MILLISECOND,
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=(kind.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _fetch_snapshot_message(request: FetchSnapshotRequest, cluster_id: str) -> Any:
    kind = messages(ApiKey.FETCH_SNAPSHOT)
    offset, epoch = request.snapshot
    partition = kind.PartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=kind.SnapshotId(end_offset=offset, epoch=epoch),
        position=request.position,
        replica_directory_id=_directory_field(request.replica),
    )
    return kind.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=request.max_bytes,
        topics=(kind.TopicSnapshot(name=METADATA_TOPIC, partitions=(partition,)),),
    )


def _directory_field(key: ReplicaKey) -> DirectoryId | None:
    return None if key.directory_id == UNKNOWN_DIRECTORY else key.directory_id


def _voter_fields(voter: ReplicaKey | None) -> tuple[int, DirectoryId | None]:
    return (-1, None) if voter is None else (voter.node_id, _directory_field(voter))


def _endpoint_fields(kind: Any, endpoints: Endpoints) -> tuple[Any, ...]:
    return tuple(
        kind.LeaderEndpoint(name=each.name, host=each.host, port=each.port) for each in endpoints
    )


# Requests of other nodes, in any version.


def request_of(key: ApiKey, message: Any, cluster_id: str) -> Request:
    """Return the request of another node.

    Raises:
        KafkaError: INCONSISTENT_CLUSTER_ID; INVALID_REQUEST: it is not about the metadata log.
    """
    if message.cluster_id not in (None, cluster_id):
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)
    return _READERS[key](message)


def _vote_of(message: Any) -> VoteRequest:
    asked = _only_partition(message.topics)
    return VoteRequest(
        candidate=_key(asked.replica_id, getattr(asked, "replica_directory_id", None)),
        epoch=LeaderEpoch(asked.replica_epoch),
        voter=_voter(message, asked),
        end=OffsetAndEpoch(Offset(asked.last_offset), LeaderEpoch(asked.last_offset_epoch)),
        is_pre_vote=getattr(asked, "pre_vote", False),
    )


def _begin_of(message: Any) -> BeginQuorumEpochRequest:
    asked = _only_partition(message.topics)
    return BeginQuorumEpochRequest(
        leader_id=BrokerId(asked.leader_id),
        epoch=LeaderEpoch(asked.leader_epoch),
        endpoints=_endpoints(message),
        voter=_voter(message, asked),
    )


def _end_of(message: Any) -> EndQuorumEpochRequest:
    asked = _only_partition(message.topics)
    keys = tuple(
        _key(each.candidate_id, each.candidate_directory_id)
        for each in getattr(asked, "preferred_candidates", ())
    )
    ids = tuple(_key(each, None) for each in getattr(asked, "preferred_successors", ()))
    return EndQuorumEpochRequest(
        leader_id=BrokerId(asked.leader_id),
        epoch=LeaderEpoch(asked.leader_epoch),
        successors=keys or ids,
        endpoints=_endpoints(message),
    )


def _fetch_of(message: Any) -> FetchRequest:
    asked = _only_partition(message.topics)
    state = getattr(message, "replica_state", message)
    known = getattr(asked, "high_watermark", LONG_MAX)
    return FetchRequest(
        replica=_key(state.replica_id, getattr(asked, "replica_directory_id", None)),
        epoch=LeaderEpoch(asked.current_leader_epoch),
        end=OffsetAndEpoch(Offset(asked.fetch_offset), LeaderEpoch(asked.last_fetched_epoch)),
        max_wait_ms=message.max_wait // MILLISECOND,
        max_bytes=message.max_bytes,
        high_watermark=known,
    )


def _fetch_snapshot_of(message: Any) -> FetchSnapshotRequest:
    asked = _only_partition(message.topics)
    wanted = asked.snapshot_id
    return FetchSnapshotRequest(
        replica=_key(message.replica_id, getattr(asked, "replica_directory_id", None)),
        epoch=LeaderEpoch(asked.current_leader_epoch),
        snapshot=OffsetAndEpoch(Offset(wanted.end_offset), LeaderEpoch(wanted.epoch)),
        position=asked.position,
        max_bytes=message.max_bytes,
    )


_READERS: dict[ApiKey, Callable[[Any], Request]] = {
    ApiKey.VOTE: _vote_of,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_of,
    ApiKey.END_QUORUM_EPOCH: _end_of,
    ApiKey.FETCH: _fetch_of,
    ApiKey.FETCH_SNAPSHOT: _fetch_snapshot_of,
}


def _only_partition(topics: Any) -> Any:
    found = [(topic, each) for topic in topics for each in topic.partitions]
    if len(topics) == len(found) == 1:
        topic, partition = found[0]
        index = getattr(partition, "partition_index", getattr(partition, "partition", None))
        if index == 0 and _is_metadata(topic):
            return partition
    raise KafkaError(ErrorCode.INVALID_REQUEST, "not about partition 0 of the metadata log alone")


def _is_metadata(topic: Any) -> bool:
    if hasattr(topic, "topic_id"):
        return bool(topic.topic_id == METADATA_TOPIC_ID)
    return getattr(topic, "topic_name", getattr(topic, "name", None)) == METADATA_TOPIC


def _voter(message: Any, asked: Any) -> ReplicaKey | None:
    voter_id = getattr(message, "voter_id", -1)
    return None if voter_id < 0 else _key(voter_id, asked.voter_directory_id)


def _key(node_id: int, directory_id: Any) -> ReplicaKey:
    known = UNKNOWN_DIRECTORY if directory_id is None else DirectoryId(directory_id)
    return ReplicaKey(BrokerId(node_id), known)


def _endpoints(message: Any) -> Endpoints:
    return tuple(
        KRaftVoterEndpoint(name=each.name, host=each.host, port=each.port)
        for each in getattr(message, "leader_endpoints", ())
    )


# Responses of other nodes.


def response_of(request: Request, message: Any, listener_name: str) -> QuorumResponse:
    """Return the response to a request of this node.

    Args:
        request: It.
        message: In the version of `ASKED_IN`.
        listener_name: Name of the listener that the leader's address is of.

    Raises:
        KafkaError: the error at the top of the response.
        DecodeError: the response is not about the metadata log, or has an unknown error.
    """
    error = _error(message.error_code)
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
    topics = message.responses if isinstance(request, FetchRequest) else message.topics
    found = [each for topic in topics for each in topic.partitions]
    if len(found) != 1:
        raise DecodeError(f"expected a response about one partition, got {len(found)}")
    (told,) = found
    leader = getattr(told, "current_leader", told)
    common: dict[str, Any] = {
        "error": _error(told.error_code),
        "epoch": LeaderEpoch(leader.leader_epoch),
        "leader_id": None if leader.leader_id < 0 else BrokerId(leader.leader_id),
        "leader_endpoints": tuple(
            KRaftVoterEndpoint(name=listener_name, host=each.host, port=each.port)
            for each in message.node_endpoints
            if each.node_id == leader.leader_id
        ),
    }
    match request:
        case VoteRequest():
            return VoteResponse(is_granted=told.vote_granted, **common)
        case BeginQuorumEpochRequest():
            return BeginQuorumEpochResponse(**common)
        case EndQuorumEpochRequest():
            return EndQuorumEpochResponse(**common)
        case FetchRequest():
            batches, is_damaged = fetched_batches(told.records or b"")
            diverging, snapshot = told.diverging_epoch, told.snapshot_id
            return QuorumFetchResponse(
                high_watermark=told.high_watermark,
                diverging=_if_known(diverging.end_offset, diverging.epoch),
                snapshot=_if_known(snapshot.end_offset, snapshot.epoch),
                batches=batches,
                is_damaged=is_damaged,
                **common,
            )
        case FetchSnapshotRequest():
            return FetchSnapshotResponse(
                snapshot=_if_known(told.snapshot_id.end_offset, told.snapshot_id.epoch),
                size=told.size,
                position=told.position,
                data=bytes(told.unaligned_records),
                **common,
            )
        case _:
            assert_never(request)


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(int(code))
    except ValueError as error:
        raise DecodeError(f"unknown error code {code}") from error


def _if_known(offset: int, epoch: int) -> OffsetAndEpoch | None:
    if max(offset, epoch) < 0:
        return None
    return OffsetAndEpoch(Offset(offset), LeaderEpoch(epoch))
