"""A follower: its questions, the use of an answer, and other nodes when its leader is silent."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jbodlab.metadata.records.control_records import KRaftVotersRecord
from jbodlab.raft.events import (
    DeadlineReached,
    ResponseReceived,
    SnapshotInstalled,
    SnapshotRefused,
    Synced,
)
from jbodlab.raft.instructions import (
    AbandonSnapshot,
    AdvanceHighWatermark,
    AppendFetched,
    BeginSnapshot,
    BootstrapServer,
    InstallSnapshot,
    SendRequest,
    TruncateLog,
    WriteSnapshotPiece,
)
from jbodlab.raft.messages import (
    Batch,
    FetchRequest,
    FetchSnapshotRequest,
    QuorumFetchResponse,
)
from jbodlab.raft.states import Follower, Unattached
from jbodlab.raft.voters import VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import QuorumViolationError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.jbodlab.raft.lone_node import (
    SETTINGS,
    LoneNode,
    at,
    batch,
    begin_request,
    endpoints_of,
    follower,
    log_of,
    unattached,
    vote_request,
)
from tests.jbodlab.raft.world import key_of, voter


def fetching() -> LoneNode:
    """A follower in epoch 5 with ten records of epoch 3."""
    return follower(log=log_of((3, 0), end=10))


def asked(node: LoneNode) -> FetchRequest:
    (sent,) = node.asked(FetchRequest)
    assert isinstance(sent.request, FetchRequest)
    return sent.request


# Questions.


def test_a_follower_asks_its_leader_from_the_end_of_its_log() -> None:
    node = fetching()

    assert node.asked(FetchRequest)[0].destination == 2
    assert node.asked(FetchRequest)[0].endpoints == endpoints_of(2)
    assert asked(node) == FetchRequest(
        replica=key_of(1),
        epoch=LeaderEpoch(5),
        end=at(10, 3),
        max_wait_ms=500,
        max_bytes=SETTINGS.fetch_max_bytes,
    )


def test_the_next_fetch_waits_until_the_records_are_synced() -> None:
    node = fetching()

    node.answer(FetchRequest, leader=2, batches=(batch(10, 12, 3), batch(12, 15, 5)))
    append = node.done(AppendFetched)[0]
    assert not node.asked(FetchRequest)
    assert not node.asked(FetchRequest)
    node.handle(Synced(append.number))

    assert asked(node).end == at(15, 5)


def test_an_observer_syncs_before_it_fetches_as_well() -> None:
    node = follower(voters=[2, 3, 4], log=log_of(voters=[2, 3, 4]))

    node.answer(FetchRequest, leader=2, batches=(batch(0, 2, 5),))

    assert not node.asked(FetchRequest)


def test_a_node_without_a_leader_asks_any_bootstrap_server() -> None:
    node = LoneNode(bootstrap_servers=4)

    assert [sent.destination for sent in node.asked(FetchRequest)] == [BootstrapServer(1)]
    node.chance = 0.9
    node.fail(node.newest(FetchRequest))
    assert [sent.destination for sent in node.asked(FetchRequest)] == [BootstrapServer(3)]
    # One Fetch at a time.
    node.handle(DeadlineReached())
    assert not node.asked(FetchRequest)


def test_a_server_that_cannot_help_is_asked_after_a_pause() -> None:
    node = LoneNode(bootstrap_servers=1)

    node.answer(FetchRequest, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not node.asked(FetchRequest)
    node.wait(SETTINGS.retry_backoff_ms)

    assert [sent.destination for sent in node.asked(FetchRequest)] == [BootstrapServer(0)]


def test_a_follower_asks_a_bootstrap_server_while_its_leader_does_not_answer() -> None:
    node = fetching()

    node.fail(node.newest(FetchRequest))
    assert isinstance(node.asked(FetchRequest)[0].destination, BootstrapServer)

    node = follower(voters=[2, 3, 4])
    node.wait(SETTINGS.request_timeout_ms)
    assert isinstance(node.newest(FetchRequest).destination, BootstrapServer)


def test_an_answer_that_is_not_expected_any_more_is_dropped() -> None:
    node = fetching()
    old = node.newest(FetchRequest)
    node.ask(begin_request(3, epoch=6))
    response = QuorumFetchResponse(
        epoch=LeaderEpoch(6), leader_id=BrokerId(3), batches=(batch(10, 12, 6),)
    )

    node.reply(old, response)

    assert node.last == []
    assert node.core.end_offset == 10


# The use of an answer.


def test_an_unattached_node_follows_the_leader_that_answers_and_takes_its_records() -> None:
    node = unattached()

    node.answer(
        FetchRequest,
        leader=2,
        leader_endpoints=endpoints_of(2),
        batches=(batch(0, 3, 5),),
        high_watermark=3,
    )

    assert isinstance(node.state, Follower)
    assert node.state.has_fetched
    assert node.core.end_offset == 3


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_error_that_names_the_leader_of_a_higher_epoch_is_believed(error: ErrorCode) -> None:
    node = fetching()

    node.answer(FetchRequest, epoch=7, leader=3, error=error)

    assert isinstance(node.state, Follower)
    assert (node.state.epoch, node.state.leader_id) == (7, 3)
    assert node.newest(FetchRequest).destination == 3


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (4, ErrorCode.NONE),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_an_answer_of_a_node_that_is_behind_is_ignored(epoch: int, error: ErrorCode) -> None:
    node = fetching()

    node.answer(FetchRequest, epoch=epoch, leader=3, error=error, batches=(batch(10, 12, 4),))

    assert isinstance(node.state, Follower)
    assert (node.state.epoch, node.state.has_fetched) == (5, False)
    assert node.core.end_offset == 10


@pytest.mark.parametrize(
    ("batches", "taken"),
    [
        ([batch(10, 12, 3), batch(12, 13, 4)], 2),
        # A gap, an overlap, an empty batch.
        ([batch(11, 12, 3)], 0),
        ([batch(9, 12, 3)], 0),
        ([batch(10, 12, 3), batch(11, 13, 3)], 1),
        ([batch(10, 10, 3)], 0),
        # An epoch that the leader cannot have written, and one that goes back.
        ([batch(10, 12, 5), batch(12, 13, 6), batch(13, 14, 5)], 1),
        ([batch(10, 12, 4), batch(12, 13, 3)], 1),
        ([batch(10, 12, 2)], 0),
    ],
)
def test_only_batches_that_continue_the_log_are_appended(batches: list[Batch], taken: int) -> None:
    node = fetching()

    node.answer(FetchRequest, leader=2, batches=tuple(batches))

    appended = [each for append in node.done(AppendFetched) for each in append.batches]
    assert appended == batches[:taken]
    assert node.core.end_offset == (batches[taken - 1].end_offset if taken else 10)


def test_damaged_records_are_asked_for_again_after_a_pause() -> None:
    node = fetching()

    node.answer(FetchRequest, leader=2, is_damaged=True)
    assert all(sent.destination != 2 for sent in node.done(SendRequest))
    assert isinstance(node.state, Follower)
    assert node.state.has_fetched


def test_each_epoch_begins_where_its_first_batch_does() -> None:
    node = fetching()

    node.answer(
        FetchRequest, leader=2, batches=(batch(10, 12, 3), batch(12, 13, 4), batch(13, 14, 5))
    )

    assert node.core.log.epochs == ((3, 0), (4, 12), (5, 13))


def test_voters_count_as_soon_as_they_are_appended() -> None:
    node = fetching()
    record = KRaftVotersRecord(voters=tuple(map(voter, (1, 2, 3, 4))))

    node.answer(
        FetchRequest, leader=2, batches=(batch(10, 11, 5, controls=((Offset(10), record),)),)
    )

    assert node.core.voters.ids == (1, 2, 3, 4)


# Commits.


def test_a_follower_commits_what_its_leader_says_when_it_has_synced_it() -> None:
    node = fetching()

    node.answer(FetchRequest, leader=2, batches=(batch(10, 15, 5),), high_watermark=12)
    assert node.done(AdvanceHighWatermark) == [AdvanceHighWatermark(Offset(10))]
    node.disk_works()
    assert node.core.high_watermark == 12
    node.answer(FetchRequest, leader=2, high_watermark=99)
    assert node.core.high_watermark == 15


def test_a_high_watermark_of_a_follower_never_falls() -> None:
    node = fetching()
    node.answer(FetchRequest, leader=2, high_watermark=8)

    node.answer(FetchRequest, leader=2, high_watermark=6)
    assert node.last == node.asked(FetchRequest)
    node.ask(begin_request(3, epoch=6))
    node.answer(FetchRequest, leader=3, high_watermark=-1)
    assert node.core.high_watermark == 8


# Where logs diverge.


def test_a_log_that_diverges_is_cut_and_asked_for_at_once() -> None:
    node = follower(log=log_of((1, 0), (3, 5), end=10))

    node.answer(FetchRequest, leader=2, diverging=at(7, 1))

    assert node.done(TruncateLog) == [TruncateLog(Offset(5))]
    assert asked(node).end == at(5, 1)


def test_a_cut_below_the_high_watermark_is_never_made() -> None:
    for diverging in (at(6, 3), at(9, 2)):
        node = follower(log=log_of((1, 0), (3, 5), end=10))
        node.answer(FetchRequest, leader=2, high_watermark=8)

        with pytest.raises(QuorumViolationError, match="high watermark 8"):
            node.answer(FetchRequest, leader=2, diverging=diverging)
        assert node.core.end_offset == 10


def test_a_leader_that_ends_an_epoch_below_the_high_watermark_is_not_believed() -> None:
    node = follower(log=log_of((1, 0), (5, 9), end=10))
    node.answer(FetchRequest, leader=2, high_watermark=8)

    # This log would be cut at 9, the end of its epoch 1.
    with pytest.raises(QuorumViolationError, match="high watermark 8"):
        node.answer(FetchRequest, leader=2, diverging=at(6, 3))


def test_an_answer_that_cuts_nothing_is_no_answer() -> None:
    node = fetching()

    node.answer(FetchRequest, leader=2, diverging=at(10, 3))

    assert not node.done(TruncateLog)
    assert all(sent.destination != 2 for sent in node.done(SendRequest))


# Snapshots.


def downloading() -> LoneNode:
    node = fetching()
    node.answer(FetchRequest, leader=2, snapshot=at(40, 4))
    return node


def test_a_follower_fetches_a_snapshot_piece_by_piece_and_begins_its_log_anew() -> None:
    node = downloading()
    assert node.done(BeginSnapshot) == [BeginSnapshot(at(40, 4))]
    piece = {"leader": 2, "snapshot": at(40, 4), "size": 5}

    node.answer(FetchSnapshotRequest, **piece, position=0, data=b"abc")  # type: ignore[arg-type]
    assert node.done(WriteSnapshotPiece) == [WriteSnapshotPiece(at(40, 4), 0, b"abc")]
    request = node.newest(FetchSnapshotRequest).request
    assert isinstance(request, FetchSnapshotRequest)
    assert request.position == 3
    node.answer(FetchSnapshotRequest, **piece, position=3, data=b"de")  # type: ignore[arg-type]
    assert node.last == [
        WriteSnapshotPiece(at(40, 4), 3, b"de"),
        InstallSnapshot(at(40, 4)),
    ]
    node.handle(SnapshotInstalled(at(40, 4), VoterSet.of(map(voter, (1, 2, 3))), 1))

    assert asked(node).end == at(40, 4)
    assert node.core.high_watermark == 40
    assert node.core.log.start_offset == 40


def test_a_snapshot_that_the_leader_has_not_got_any_more_is_given_up() -> None:
    node = downloading()

    node.answer(FetchSnapshotRequest, leader=2, error=ErrorCode.SNAPSHOT_NOT_FOUND)

    assert node.done(AbandonSnapshot) == [AbandonSnapshot(at(40, 4))]
    assert asked(node).end == at(10, 3)


def test_a_piece_of_another_place_is_not_written() -> None:
    node = downloading()

    node.answer(FetchSnapshotRequest, leader=2, snapshot=at(40, 4), size=5, position=2, data=b"abc")

    assert not node.done(WriteSnapshotPiece)


def test_a_snapshot_that_is_not_valid_changes_nothing() -> None:
    node = downloading()
    node.answer(FetchSnapshotRequest, leader=2, snapshot=at(40, 4), size=3, position=0, data=b"abc")

    node.handle(SnapshotRefused(at(40, 4)))

    assert asked(node).end == at(10, 3)
    assert node.core.high_watermark is None


def test_another_leader_ends_the_download() -> None:
    node = downloading()

    node.ask(begin_request(3, epoch=6))

    assert node.done(AbandonSnapshot) == [AbandonSnapshot(at(40, 4))]
    assert isinstance(node.state, Follower)
    assert node.state.download is None


@pytest.mark.parametrize("snapshot", [at(-1, 2), at(40, -1), at(10, 3), at(40, 2)])
def test_a_snapshot_that_the_log_does_not_need_is_not_fetched(snapshot: tuple[int, int]) -> None:
    node = fetching()

    node.answer(FetchRequest, leader=2, snapshot=snapshot)

    assert not node.done(BeginSnapshot)
    assert not node.asked(FetchSnapshotRequest)


def test_each_piece_begins_the_fetch_timer_anew() -> None:
    node = downloading()
    node.now_ms += 1_500

    node.answer(FetchSnapshotRequest, leader=2, snapshot=at(40, 4), size=5, position=0, data=b"abc")

    assert node.state.deadline_ms == node.now_ms + SETTINGS.fetch_timeout_ms  # type: ignore[union-attr]


# Replicas that are no voters.


def test_a_replica_on_another_disk_than_the_voters_is_an_observer() -> None:
    other = replace(voter(1), voter_directory_id=key_of(9).directory_id)
    log = log_of()
    log.add_controls([(Offset(0), KRaftVotersRecord(voters=(other, voter(2), voter(3))))])
    node = LoneNode(log=log)

    node.wait(60_000)

    assert isinstance(node.state, Unattached)


def test_an_observer_grants_votes_since_its_voters_may_be_old() -> None:
    node = LoneNode(voters=[2, 3, 4])

    node.ask(vote_request(2, epoch=3))

    assert node.state.voted == key_of(2)


def test_an_answer_to_no_request_changes_nothing() -> None:
    node = fetching()

    node.handle(
        ResponseReceived(999, QuorumFetchResponse(epoch=LeaderEpoch(9), leader_id=BrokerId(3)))
    )

    assert node.state.epoch == 5
