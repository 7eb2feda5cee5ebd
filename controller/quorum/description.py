"""DescribeQuorum: the one voter, and the brokers that follow its log.

Each heartbeat of a broker reports its offset, so the offsets are as old as the last heartbeat. A
node without a term knows of no broker: its response is an error that names the leader it knows of,
and how far the log is committed here.

Source: `org.apache.kafka.raft.LeaderState`, KIP-595, KIP-836.
"""

from __future__ import annotations

from controller.decide.heartbeats import UNKNOWN_OFFSET
from controller.decide.state import ControllerState
from jbodlab.controller_api.requests import DescribeQuorumResponse, QuorumReplica
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, LeaderEpoch, Offset


def describe_without_term(
    cluster_id: str, epoch: LeaderEpoch, leader: BrokerId | None, end_offset: Offset
) -> DescribeQuorumResponse:
    """Describe the quorum as a node knows it that is not active.

    Args:
        cluster_id: Of the log.
        epoch: The newest leader epoch.
        leader: Leader of that epoch; None if it is unknown.
        end_offset: Up to where the log is committed, as far as this node knows.
    """
    return DescribeQuorumResponse(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        cluster_id=cluster_id,
        leader_id=NO_LEADER if leader is None else leader,
        leader_epoch=epoch,
        high_watermark=end_offset,
    )


def describe_quorum(
    state: ControllerState, epoch: LeaderEpoch, end_offset: Offset, now_ms: int, wall_ms: int
) -> DescribeQuorumResponse:
    """Describe the quorum of the metadata log.

    Args:
        state: The controller's state.
        epoch: Its leader epoch.
        end_offset: Up to where the log is committed.
        now_ms: On the clock of the sessions.
        wall_ms: Milliseconds since 1970.
    """
    settings, contacts = state.settings, state.heartbeats.contacts
    leader = QuorumReplica(
        replica_id=settings.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=wall_ms,
        last_caught_up_timestamp=wall_ms,
    )
    followers = {
        broker_id: contacts[broker_id]
        for broker_id in sorted(state.image.cluster.brokers)
        if broker_id in contacts and contacts[broker_id].metadata_offset != UNKNOWN_OFFSET
    }
    return DescribeQuorumResponse(
        cluster_id=settings.cluster_id,
        leader_id=settings.node_id,
        leader_epoch=epoch,
        high_watermark=end_offset,
        current_voters=(leader,),
        observers=tuple(
            QuorumReplica(
                replica_id=broker_id,
                # A broker may have applied what this state does not know to be committed yet.
                log_end_offset=Offset(min(contact.metadata_offset + 1, end_offset)),
                last_fetch_timestamp=wall_ms - (now_ms - contact.last_contact_ms),
                last_caught_up_timestamp=(
                    -1
                    if contact.caught_up_ms is None
                    else wall_ms - (now_ms - contact.caught_up_ms)
                ),
                replica_directory_id=contact.metadata_log_dir,
            )
            for broker_id, contact in followers.items()
        ),
    )
