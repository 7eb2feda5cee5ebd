"""DescribeQuorum: the voters, and the controllers and brokers that follow their log.

Each heartbeat of a broker reports its offset, so the offsets are as old as the last heartbeat. A
node without a term knows of no broker: its response is an error that names the leader it knows of,
and how far the log is committed here.

Source: `org.apache.kafka.raft.LeaderState`, KIP-595, KIP-836.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.decide.heartbeats import UNKNOWN_OFFSET
from controller.decide.state import ControllerState
from controller.quorum.replicated_log import QuorumFollower
from jbodlab.controller_api.requests import DescribeQuorumResponse, QuorumReplica
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId, LeaderEpoch, Offset


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
    state: ControllerState,
    epoch: LeaderEpoch,
    end_offset: Offset,
    now_ms: int,
    wall_ms: int,
    controllers: Sequence[QuorumFollower] = (),
    directory_id: DirectoryId | None = None,
) -> DescribeQuorumResponse:
    """Describe the quorum of the metadata log.

    Args:
        state: The controller's state.
        epoch: Its leader epoch.
        end_offset: Up to where the log is committed.
        now_ms: On the clock of the sessions.
        wall_ms: Milliseconds since 1970.
        controllers: The others, voters and observers.
        directory_id: Where this node keeps the log; None where the quorum does not know that.
    """

    def told(at_ms: int | None) -> int:
        return -1 if at_ms is None else wall_ms - (now_ms - at_ms)

    def replica(controller: QuorumFollower) -> QuorumReplica:
        return QuorumReplica(
            replica_id=controller.node_id,
            log_end_offset=controller.end_offset,
            last_fetch_timestamp=told(controller.last_fetch_ms),
            last_caught_up_timestamp=told(controller.last_caught_up_ms),
            replica_directory_id=controller.directory_id,
        )

    settings, contacts = state.settings, state.heartbeats.contacts
    leader = QuorumReplica(
        replica_id=settings.node_id,
        log_end_offset=end_offset,
        last_fetch_timestamp=wall_ms,
        last_caught_up_timestamp=wall_ms,
        replica_directory_id=directory_id,
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
        current_voters=(leader, *(replica(each) for each in controllers if each.is_voter)),
        observers=tuple(replica(each) for each in controllers if not each.is_voter)
        + tuple(
            QuorumReplica(
                replica_id=broker_id,
                # A broker may have applied what this state does not know to be committed yet.
                log_end_offset=Offset(min(contact.metadata_offset + 1, end_offset)),
                last_fetch_timestamp=told(contact.last_contact_ms),
                last_caught_up_timestamp=told(contact.caught_up_ms),
                replica_directory_id=contact.metadata_log_dir,
            )
            for broker_id, contact in followers.items()
        ),
    )
