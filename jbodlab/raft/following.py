"""The duties of a follower: it copies the leader's log, cuts its own, or fetches a snapshot.

A Fetch says that all below its offset is on the disk of this node: the leader counts it. So the
next Fetch leaves only when the last append is synced; after a truncation nothing is left to sync.

Source: `org.apache.kafka.raft.KafkaRaftClient.handleFetchResponse`; KIP-595, KIP-630.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from jbodlab.raft.instructions import (
    AbandonSnapshot,
    BeginSnapshot,
    InstallSnapshot,
    WriteSnapshotPiece,
)
from jbodlab.raft.joining import request_about_itself
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import (
    Batch,
    FetchRequest,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    QuorumFetchResponse,
)
from jbodlab.raft.node import QuorumNode
from jbodlab.raft.states import Follower
from jbodlab.raft.voters import NOBODY, ReplicaKey
from jbodlab.vocabulary.errors import QuorumViolationError


def fetch_request(node: QuorumNode) -> FetchRequest:
    """Return the next Fetch."""
    assert node.log.is_synced
    return FetchRequest(
        replica=_replica(node),
        epoch=node.state.epoch,
        end=node.log.end,
        max_wait_ms=node.settings.fetch_wait_ms,
        max_bytes=node.settings.fetch_max_bytes,
        high_watermark=-1 if node.high_watermark is None else node.high_watermark,
    )


def send_fetch(node: QuorumNode) -> None:
    """Ask the leader for records or for a snapshot, any other node for the leader."""
    if node.outbox.is_fetching or not node.log.is_synced:
        return
    state = node.state
    if isinstance(state, Follower):
        leader = ReplicaKey(state.leader_id)
        if state.download is not None and state.position is None:
            return
        if node.outbox.is_ready(leader.node_id):
            _send_next(node, state, leader)
            return
        if not node.outbox.is_pausing(leader.node_id):
            return
    server = node.outbox.ready_server(node.chance)
    if server is not None:
        node.emit(node.outbox.send(server, (), fetch_request(node), node.now_ms))


def _send_next(node: QuorumNode, state: Follower, leader: ReplicaKey) -> None:
    about_itself = request_about_itself(node, state)
    if about_itself is not None:
        due_ms = node.now_ms + node.settings.fetch_timeout_ms
        node.update(replace(state, update_due_ms=due_ms))
    node.send(leader, about_itself or _next_request(node, state))


def _next_request(node: QuorumNode, state: Follower) -> FetchRequest | FetchSnapshotRequest:
    if state.download is None or state.position is None:
        return fetch_request(node)
    return FetchSnapshotRequest(
        replica=_replica(node),
        epoch=state.epoch,
        snapshot=state.download,
        position=state.position,
        max_bytes=node.settings.fetch_snapshot_max_bytes,
    )


def _replica(node: QuorumNode) -> ReplicaKey:
    return node.me if node.is_whole else NOBODY


def fetched(node: QuorumNode, state: Follower, response: QuorumFetchResponse) -> bool:
    """Take a Fetch response without an error; returns whether it was of any use.

    Raises:
        QuorumViolationError: the leader lacks records that are committed.
    """
    _restart_timer(node, state)
    node.has_leader()
    if response.diverging is not None:
        return _diverged(node, response.diverging)
    if response.snapshot is not None:
        return _needs_snapshot(node, response.snapshot)
    batches = valid_batches(node, response.batches)
    if batches:
        node.append_fetched(batches)
    is_of_use = len(batches) == len(response.batches) and not response.is_damaged
    _learn_high_watermark(node, response.high_watermark)
    if not node.is_whole and is_of_use:
        _catch_up(node, response)
    return is_of_use


def _catch_up(node: QuorumNode, response: QuorumFetchResponse) -> None:
    """Count again when the leader has committed a record behind an end of its log seen here."""
    state = node.state
    assert isinstance(state, Follower)
    if state.leader_end_offset < 0 and not response.batches:
        node.update(replace(state, leader_end_offset=node.log.end_offset))
    elif 0 <= state.leader_end_offset < response.high_watermark:
        node.become_whole()


def _restart_timer(node: QuorumNode, state: Follower) -> None:
    if state.is_resigned:
        # A late answer; the leader will give no other.
        node.update(replace(state, has_fetched=True))
        return
    deadline = node.now_ms + node.settings.fetch_timeout_ms
    node.update(
        replace(
            state,
            deadline_ms=deadline,
            fetch_deadline_ms=deadline,
            has_fetched=True,
            is_suspected=False,
        )
    )


def _diverged(node: QuorumNode, diverging: OffsetAndEpoch) -> bool:
    if node.high_watermark is not None and diverging.offset < node.high_watermark:
        raise QuorumViolationError(
            f"{node.state} diverges at {diverging} from its leader, "
            f"below the high watermark {node.high_watermark}; its log ends at {node.log.end}"
        )
    target = node.log.truncation_for(diverging)
    if not node.log.start_offset <= target < node.log.end_offset:
        return False
    node.truncate(target)
    return True


def _needs_snapshot(node: QuorumNode, snapshot: OffsetAndEpoch) -> bool:
    state = node.state
    assert isinstance(state, Follower)
    is_of_use = min(snapshot) >= 0 and not node.log.end.is_up_to_date_with(snapshot)
    if is_of_use:
        node.emit(BeginSnapshot(snapshot))
        node.update(replace(state, download=snapshot, position=0))
    return is_of_use


def valid_batches(node: QuorumNode, batches: Sequence[Batch]) -> list[Batch]:
    """Return the batches at the front that continue the log.

    A batch of a higher epoch than the leader's was not written by it: its network thread may have
    read what a truncation replaced (KAFKA-18723).
    """
    valid = []
    end, epoch = node.log.end_offset, node.log.last_epoch
    for batch in batches:
        is_next = batch.base_offset == end < batch.end_offset
        if not is_next or not epoch <= batch.epoch <= node.state.epoch:
            break
        valid.append(batch)
        end, epoch = batch.end_offset, batch.epoch
    return valid


def _learn_high_watermark(node: QuorumNode, high_watermark: int) -> None:
    state = node.state
    assert isinstance(state, Follower)
    if high_watermark > state.high_watermark:
        node.update(replace(state, high_watermark=high_watermark))
    advance_high_watermark(node)


def advance_high_watermark(node: QuorumNode) -> None:
    """Commit what the leader has told to be, as far as it is on the disk of this node."""
    if isinstance(node.state, Follower):
        node.advance_high_watermark(min(node.state.high_watermark, node.log.synced_offset))


def snapshot_fetched(node: QuorumNode, state: Follower, response: FetchSnapshotResponse) -> bool:
    """Take a piece of a snapshot; returns whether it was of any use."""
    if response.snapshot is None:
        give_up_snapshot(node)
        return True
    if (response.snapshot, response.position) != (state.download, state.position):
        return False
    _restart_timer(node, state)
    node.emit(WriteSnapshotPiece(response.snapshot, response.position, response.data))
    position = response.position + len(response.data)
    is_complete = position >= response.size
    state = node.state if isinstance(node.state, Follower) else state
    node.update(replace(state, position=None if is_complete else position))
    if is_complete:
        node.emit(InstallSnapshot(response.snapshot))
    return is_complete or bool(response.data)


def give_up_snapshot(node: QuorumNode) -> None:
    """Remove what was fetched of a snapshot, and ask for records again."""
    state = node.state
    if isinstance(state, Follower) and state.download is not None:
        node.emit(AbandonSnapshot(state.download))
        node.update(replace(state, download=None, position=None))
