"""Requests and responses of the quorum as Kafka's messages.

A message has what the core does not know: the cluster id, and an array of topics with an array of
partitions, which have exactly one element each here. A request of another cluster or about another
partition is refused before the core sees it, with an error at the top of the response.

    request            sent and answered in
    Vote               0 to 2      keys from 1, pre-votes from 2
    BeginQuorumEpoch   0 to 1      keys and endpoints from 1
    EndQuorumEpoch     0 to 1      directories of the successors from 1
    Fetch              13 to 18    directory from 17, high watermark from 18
    FetchSnapshot      0 to 1      directory from 1
    AddRaftVoter       0 to 1      whether the commit is waited for from 1
    RemoveRaftVoter    0
    UpdateRaftVoter    0
    ApiVersions        0 to 4      levels of kraft.version from 4; sent from 3 on

A request is sent in the newest version that both sides have. Fields that an older one does not have
are left out, except that a pre-vote must not become a vote.

Source: Kafka's messages of these names; `org.apache.kafka.raft.RaftUtil`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any, assert_never

from msgspec.structs import asdict

from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.kafka_wire.message import Fields, made
from jbodlab.metadata.records.cluster_records import (
    BrokerEndpoint,
    RegisterControllerRecord,
)
from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVoter,
    KRaftVoterEndpoint,
)
from jbodlab.metadata.records.features import KRAFT_VERSION
from jbodlab.raft.batches import fetched_batches
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PlainResponse,
    QuorumFetchResponse,
    QuorumResponse,
    RaiseKRaftVersionRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VersionsRequest,
    VersionsResponse,
    VoterChangeRequest,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, Endpoints, ReplicaKey
from jbodlab.server.request_values import value_of
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

SENT_IN = {
    ApiKey.VOTE: range(3),
    ApiKey.BEGIN_QUORUM_EPOCH: range(2),
    ApiKey.END_QUORUM_EPOCH: range(2),
    ApiKey.FETCH: range(13, 19),
    ApiKey.FETCH_SNAPSHOT: range(2),
    ApiKey.ADD_RAFT_VOTER: range(2),
    ApiKey.REMOVE_RAFT_VOTER: range(1),
    ApiKey.UPDATE_RAFT_VOTER: range(1),
    ApiKey.API_VERSIONS: range(3, 5),
}
"""The versions of each request that a controller may send."""
REGISTRATION_VERSION = 0
PRE_VOTES = range(2, 3)
"""The versions of Vote that know them."""


# Requests of this node.


def request_message(
    request: Request, cluster_id: str, served: Mapping[int, range]
) -> tuple[ApiKey, int, Any] | None:
    """Return API, version and message of a request, in the newest version that both sides have.

    Args:
        request: It.
        cluster_id: Id of the cluster.
        served: The versions that the receiver serves, by API.

    Returns:
        None where the receiver serves no version that can hold it.
    """
    key, fields = _fields(request)
    ours = PRE_VOTES if isinstance(request, VoteRequest) and request.is_pre_vote else SENT_IN[key]
    theirs = served.get(key, range(0))
    common = range(max(ours.start, theirs.start), min(ours.stop, theirs.stop))
    if not common:
        return None
    return (
        key,
        common[-1],
        made(request_class(key, common[-1]), {"cluster_id": cluster_id, **fields}),
    )


def _fields(request: Request) -> tuple[ApiKey, Fields]:
    """Return the fields of a request in all versions; each version has some of them."""
    match request:
        case VoteRequest():
            return ApiKey.VOTE, _vote_fields(request)
        case BeginQuorumEpochRequest():
            return ApiKey.BEGIN_QUORUM_EPOCH, _begin_fields(request)
        case EndQuorumEpochRequest():
            return ApiKey.END_QUORUM_EPOCH, _end_fields(request)
        case FetchRequest():
            return ApiKey.FETCH, _fetch_fields(request)
        case FetchSnapshotRequest():
            return ApiKey.FETCH_SNAPSHOT, _fetch_snapshot_fields(request)
        case AddVoterRequest():
            return ApiKey.ADD_RAFT_VOTER, _add_fields(request)
        case RemoveVoterRequest():
            return ApiKey.REMOVE_RAFT_VOTER, _key_fields(request.voter)
        case UpdateVoterRequest():
            return ApiKey.UPDATE_RAFT_VOTER, _update_fields(request)
        case VersionsRequest():
            software = {
                "client_software_name": "jbodlab",
                "client_software_version": version("jbodlab"),
            }
            return ApiKey.API_VERSIONS, software
        case RaiseKRaftVersionRequest():
            raise AssertionError("no controller asks another one for it")
        case _:
            assert_never(request)


def _vote_fields(request: VoteRequest) -> Fields:
    voter = _key_fields(request.voter)
    partition = {
        "replica_epoch": request.epoch,
        "replica_id": request.candidate.node_id,
        "replica_directory_id": _directory_field(request.candidate),
        "voter_directory_id": voter["voter_directory_id"],
        "last_offset_epoch": request.end.epoch,
        "last_offset": request.end.offset,
        "pre_vote": request.is_pre_vote,
    }
    return {"voter_id": voter["voter_id"], "topics": _topics(partition)}


def _begin_fields(request: BeginQuorumEpochRequest) -> Fields:
    voter = _key_fields(request.voter)
    partition = {
        "voter_directory_id": voter["voter_directory_id"],
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
    }
    return {
        "voter_id": voter["voter_id"],
        "topics": _topics(partition),
        "leader_endpoints": _endpoint_fields(request.endpoints),
    }


def _end_fields(request: EndQuorumEpochRequest) -> Fields:
    partition = {
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
        # Version 0 knows ids only.
        "preferred_successors": [each.node_id for each in request.successors],
        "preferred_candidates": [
            {"candidate_id": each.node_id, "candidate_directory_id": _directory_field(each)}
            for each in request.successors
        ],
    }
    return {
        "topics": _topics(partition),
        "leader_endpoints": _endpoint_fields(request.endpoints),
    }


def _fetch_fields(request: FetchRequest) -> Fields:
    partition = {
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.end.offset,
        "last_fetched_epoch": request.end.epoch,
        "partition_max_bytes": request.max_bytes,
        "replica_directory_id": _directory_field(request.replica),
        "high_watermark": request.high_watermark,
    }
    return {
        # Before version 15 the id is a field of the request itself.
        "replica_id": request.replica.node_id,
        "replica_state": {"replica_id": request.replica.node_id},
        "max_wait": request.max_wait_ms * MILLISECOND,
        "min_bytes": 0,
        "max_bytes": request.max_bytes,
        "topics": _topics(partition),
    }


def _fetch_snapshot_fields(request: FetchSnapshotRequest) -> Fields:
    offset, epoch = request.snapshot
    partition = {
        "current_leader_epoch": request.epoch,
        "snapshot_id": {"end_offset": offset, "epoch": epoch},
        "position": request.position,
        "replica_directory_id": _directory_field(request.replica),
    }
    return {
        "replica_id": request.replica.node_id,
        "max_bytes": request.max_bytes,
        "topics": _topics(partition),
    }


def _add_fields(request: AddVoterRequest) -> Fields:
    return {
        **_key_fields(request.voter),
        "timeout": request.timeout_ms * MILLISECOND,
        "listeners": _endpoint_fields(request.endpoints),
        "ack_when_committed": request.acks_commit,
    }


def _update_fields(request: UpdateVoterRequest) -> Fields:
    voter = request.voter
    return {
        "current_leader_epoch": request.epoch,
        "voter_id": voter.voter_id,
        "voter_directory_id": voter.voter_directory_id,
        "listeners": _endpoint_fields(voter.endpoints),
        "k_raft_version_feature": asdict(voter.k_raft_version_feature),
    }


def _topics(partition: Fields) -> list[Fields]:
    """Return the one topic with its one partition, under the names of all messages."""
    of_partition = {"partition": 0, "partition_index": 0, **partition}
    return [
        {
            "topic_name": METADATA_TOPIC,
            "name": METADATA_TOPIC,
            "topic_id": METADATA_TOPIC_ID,
            "partitions": [of_partition],
        }
    ]


def _directory_field(key: ReplicaKey) -> DirectoryId | None:
    return None if key.directory_id == UNKNOWN_DIRECTORY else key.directory_id


def _key_fields(voter: ReplicaKey | None) -> Fields:
    if voter is None:
        return {"voter_id": -1, "voter_directory_id": None}
    return {"voter_id": voter.node_id, "voter_directory_id": _directory_field(voter)}


def _endpoint_fields(endpoints: Endpoints) -> list[Fields]:
    return list(map(asdict, endpoints))


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


def _add_of(message: Any) -> AddVoterRequest:
    return AddVoterRequest(
        voter=_key(message.voter_id, message.voter_directory_id),
        endpoints=_listeners(message),
        acks_commit=getattr(message, "ack_when_committed", True),
        timeout_ms=message.timeout // MILLISECOND,
    )


def _remove_of(message: Any) -> RemoveVoterRequest:
    return RemoveVoterRequest(voter=_key(message.voter_id, message.voter_directory_id))


def _update_of(message: Any) -> UpdateVoterRequest:
    key = _key(message.voter_id, message.voter_directory_id)
    return UpdateVoterRequest(
        epoch=LeaderEpoch(message.current_leader_epoch),
        voter=KRaftVoter(
            voter_id=key.node_id,
            voter_directory_id=key.directory_id,
            endpoints=_listeners(message),
            k_raft_version_feature=value_of(
                KRaftVersionFeature, message.k_raft_version_feature, {}
            ),
        ),
    )


_READERS: dict[ApiKey, Callable[[Any], Request]] = {
    ApiKey.VOTE: _vote_of,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_of,
    ApiKey.END_QUORUM_EPOCH: _end_of,
    ApiKey.FETCH: _fetch_of,
    ApiKey.FETCH_SNAPSHOT: _fetch_snapshot_of,
    ApiKey.ADD_RAFT_VOTER: _add_of,
    ApiKey.REMOVE_RAFT_VOTER: _remove_of,
    ApiKey.UPDATE_RAFT_VOTER: _update_of,
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
    return _endpoints_of(getattr(message, "leader_endpoints", ()))


def _listeners(message: Any) -> Endpoints:
    return _endpoints_of(message.listeners)


def _endpoints_of(listeners: Iterable[Any]) -> Endpoints:
    return tuple(value_of(KRaftVoterEndpoint, each, {}) for each in listeners)


# Responses of other nodes.


def response_of(
    request: Request, message: Any, listener_name: str
) -> QuorumResponse | PlainResponse:
    """Return the response to a request of this node.

    Args:
        request: It.
        message: In the version of the request.
        listener_name: Name of the listener that the leader's address is of.

    Raises:
        KafkaError: the error at the top of the response.
        DecodeError: the response is not about the metadata log, or has an unknown error.
    """
    error = _error(message.error_code)
    if isinstance(request, UpdateVoterRequest) and message.current_leader.leader_epoch >= 0:
        return _updated(message, error, listener_name)
    if error is not ErrorCode.NONE:
        raise KafkaError(error)
    if isinstance(request, VersionsRequest):
        return VersionsResponse(versions=_versions_of(message))
    if isinstance(request, VoterChangeRequest):
        return PlainResponse()
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
            for each in getattr(message, "node_endpoints", ())
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


def _updated(message: Any, error: ErrorCode, listener_name: str) -> UpdateVoterResponse:
    leader = message.current_leader
    is_known = leader.leader_id >= 0
    endpoint = KRaftVoterEndpoint(name=listener_name, host=leader.host, port=leader.port)
    return UpdateVoterResponse(
        error=error,
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=BrokerId(leader.leader_id) if is_known else None,
        leader_endpoints=(endpoint,) if is_known and leader.host else (),
    )


def _versions_of(message: Any) -> KRaftVersionFeature:
    for each in getattr(message, "supported_features", ()):
        if each.name == KRAFT_VERSION:
            return KRaftVersionFeature(
                min_supported_version=each.min_version, max_supported_version=each.max_version
            )
    return KRaftVersionFeature(min_supported_version=0, max_supported_version=0)


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(int(code))
    except ValueError as error:
        raise DecodeError(f"unknown error code {code}") from error


def _if_known(offset: int, epoch: int) -> OffsetAndEpoch | None:
    if max(offset, epoch) < 0:
        return None
    return OffsetAndEpoch(Offset(offset), LeaderEpoch(epoch))


def registration_message(record: RegisterControllerRecord) -> Any:
    """Return the request of a controller that wants to be in the metadata."""
    values = {
        **asdict(record),
        "listeners": list(map(asdict, record.end_points)),
        "features": list(map(asdict, record.features)),
    }
    return made(request_class(ApiKey.CONTROLLER_REGISTRATION, REGISTRATION_VERSION), values)


def registration_of(message: Any) -> RegisterControllerRecord:
    """Return the registration that a controller asks for.

    Raises:
        KafkaError: INVALID_REQUEST, its process has no id.
    """
    if message.incarnation_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "the incarnation id is missing")
    end_points = tuple(value_of(BrokerEndpoint, each, {}) for each in message.listeners)
    record: RegisterControllerRecord = value_of(
        RegisterControllerRecord, message, {"end_points": end_points}
    )
    return record
