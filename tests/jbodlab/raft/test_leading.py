"""A leader: its first records, its commits, and its answers."""

from __future__ import annotations

import pytest

from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    KRaftVotersRecord,
    LeaderChangeMessage,
)
from jbodlab.raft.events import (
    ConfirmationAsked,
    DiskSlow,
    NodeShutdownBegun,
    SnapshotsChanged,
    Synced,
)
from jbodlab.raft.instructions import (
    AdvanceHighWatermark,
    AppendControl,
    AppendProposed,
    ReportLostRecords,
    Respond,
    TellConfirmed,
    TellEstablished,
    TellHandedOver,
)
from jbodlab.raft.leading import HAND_OVER_PAUSE_MS
from jbodlab.raft.log_view import LogView, OffsetAndEpoch
from jbodlab.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotAnswer,
    FetchSnapshotRequest,
    QuorumFetchAnswer,
    VoteRequest,
)
from jbodlab.raft.states import Leader, Resigned
from jbodlab.raft.voters import History, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.jbodlab.raft.lone_node import (
    SETTINGS,
    LoneNode,
    at,
    established,
    fetch_request,
    follower,
    leader,
    log_of,
)
from tests.jbodlab.raft.world import key_of, voter


def fetch(node: LoneNode, request: FetchRequest) -> QuorumFetchAnswer:
    answer = node.ask(request)
    assert isinstance(answer, QuorumFetchAnswer)
    return answer


def answers(node: LoneNode) -> list[QuorumFetchAnswer]:
    return [
        each.answer for each in node.done(Respond) if isinstance(each.answer, QuorumFetchAnswer)
    ]


# The first records.


def test_the_first_leader_writes_the_voters_of_the_bootstrap_snapshot_into_the_log() -> None:
    voters: History[VoterSet] = History(VoterSet())
    voters.add(-1, VoterSet.of([voter(1)]))
    levels = History(0)
    levels.add(-1, 1)
    node = LoneNode(log=LogView(voters=voters, kraft_versions=levels))

    records = node.done(AppendControl)[0].records

    assert [type(each) for each in records] == [
        LeaderChangeMessage,
        KRaftVersionRecord,
        KRaftVotersRecord,
    ]
    assert records[1:] == (
        KRaftVersionRecord(k_raft_version=1),
        KRaftVotersRecord(voters=(voter(1),)),
    )
    assert node.core.log.voters.last_offset == 2
    assert node.core.end_offset == 3


def test_a_later_leader_writes_only_that_it_leads() -> None:
    voters: History[VoterSet] = History(VoterSet())
    voters.add(2, VoterSet.of([voter(1)]))
    levels = History(0)
    levels.add(1, 1)
    log = LogView(voters=voters, kraft_versions=levels, end_offset=3, epochs=[(1, 0)])
    node = LoneNode(log=log)

    assert len(node.done(AppendControl)[0].records) == 1


# Commits.


def test_a_leader_commits_what_it_and_another_voter_have_synced() -> None:
    node = leader()
    append = node.done(AppendControl)[0]

    node.ask(fetch_request(2, at(0, 0), epoch=1))
    node.ask(fetch_request(2, at(1, 1), epoch=1))
    assert node.core.high_watermark is None
    node.handle(Synced(append.number))

    assert node.core.high_watermark == 1
    order = [type(each) for each in node.last]
    assert order == [AdvanceHighWatermark, Respond, TellEstablished]
    assert node.done(TellEstablished) == [TellEstablished(LeaderEpoch(1), Offset(0))]


def test_a_leader_commits_what_the_others_have_while_its_own_disk_hangs() -> None:
    node = leader()

    for other in (2, 3):
        node.ask(fetch_request(other, at(1, 1), epoch=1))

    assert node.core.high_watermark == 1


def test_a_sole_voter_commits_with_its_own_sync() -> None:
    node = LoneNode(voters=[1])
    assert node.core.high_watermark is None

    node.disk_works()
    assert node.core.high_watermark == 1
    node.propose(3)
    append = node.done(AppendProposed)[0]
    assert node.core.high_watermark == 1
    node.handle(Synced(append.number))
    assert node.core.high_watermark == 4
    assert not node.done(TellEstablished)


def test_a_leader_knows_no_high_watermark_before_its_first_record_is_committed() -> None:
    node = follower(1, log=log_of((0, 0), end=4))
    node.answer(FetchRequest, leader=2, high_watermark=4)
    assert node.core.high_watermark == 4
    node.wait_until_due()
    for _ in range(2):
        node.answer(VoteRequest, 3, is_granted=True)
    assert isinstance(node.state, Leader)

    node.disk_works()
    answer = fetch(node, fetch_request(3, at(4, 0), epoch=2))

    assert answer.high_watermark == -1
    assert node.core.high_watermark == 4


def test_records_of_older_epochs_on_a_majority_are_not_committed_alone() -> None:
    node = leader(log=log_of((0, 0), end=4))
    node.disk_works()

    for other in (2, 3):
        node.ask(fetch_request(other, at(4, 0), epoch=1))
    assert node.core.high_watermark is None
    node.ask(fetch_request(2, at(5, 1), epoch=1))
    assert node.core.high_watermark == 5


def test_a_voter_whose_offset_falls_is_reported_once() -> None:
    node = established()

    node.ask(fetch_request(2, at(0, 0), epoch=1))
    assert node.done(ReportLostRecords) == [ReportLostRecords(key_of(2), Offset(1), Offset(0))]
    node.ask(fetch_request(2, at(0, 0), epoch=1))
    assert not node.done(ReportLostRecords)
    assert node.core.high_watermark == 1


# Answers to a Fetch.


def test_records_are_sent_before_they_are_on_the_leaders_disk() -> None:
    node = established()
    node.propose(2)
    node.propose(2)

    answer = fetch(node, fetch_request(3, at(1, 1), epoch=1))

    assert answer.read == (1, 5, 1000)
    assert (answer.high_watermark, answer.log_start_offset, answer.leader_id) == (1, 0, 1)


def test_a_fetch_without_news_waits_for_records() -> None:
    node = established()
    assert node.ask(fetch_request(3, at(1, 1), epoch=1, high_watermark=1)) is None

    node.propose()

    assert [answer.read for answer in answers(node)] == [(1, 2, 1000)]


def test_a_fetch_without_news_waits_for_a_higher_high_watermark() -> None:
    node = established()
    node.propose()
    append = node.done(AppendProposed)[0]
    assert node.ask(fetch_request(3, at(2, 1), epoch=1, high_watermark=1)) is None
    node.handle(Synced(append.number))

    assert [answer.high_watermark for answer in answers(node)] == [2]


def test_a_fetch_that_knows_a_lower_high_watermark_is_answered_at_once() -> None:
    node = established()

    answer = fetch(node, fetch_request(3, at(1, 1), epoch=1, high_watermark=0))

    assert (answer.read, answer.high_watermark) == (None, 1)


def test_a_fetch_waits_no_longer_than_it_says() -> None:
    node = established()
    assert node.ask(fetch_request(3, at(1, 1), epoch=1, max_wait_ms=70, high_watermark=1)) is None

    node.wait(69)
    assert not answers(node)
    node.wait(1)
    assert len(answers(node)) == 1
    assert fetch(node, fetch_request(3, at(1, 1), epoch=1, max_wait_ms=0, high_watermark=9))


@pytest.mark.parametrize(
    ("end", "epoch", "max_wait_ms", "error"),
    [
        (at(1, 1), 0, 500, ErrorCode.INVALID_REQUEST),
        (at(-1, 0), 1, 500, ErrorCode.INVALID_REQUEST),
        (at(1, -1), 1, 500, ErrorCode.INVALID_REQUEST),
        (at(1, 1), 1, -1, ErrorCode.INVALID_REQUEST),
        (at(0, 0), 0, 500, ErrorCode.FENCED_LEADER_EPOCH),
        (at(1, 1), 2, 500, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_fetch_that_is_not_for_this_leader_is_refused(
    end: OffsetAndEpoch, epoch: int, max_wait_ms: int, error: ErrorCode
) -> None:
    node = established()

    answer = fetch(node, fetch_request(3, end, epoch=epoch, max_wait_ms=max_wait_ms))

    assert (answer.error, answer.epoch, answer.leader_id) == (error, 1, 1)
    assert isinstance(node.state, Leader)


def test_a_follower_refuses_a_fetch_and_names_its_leader() -> None:
    node = follower()

    answer = fetch(node, fetch_request(3, at(0, 0), epoch=5))

    assert (answer.error, answer.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert answer.leader_endpoints == voter(2).endpoints


def test_a_leader_that_ends_refuses_a_fetch() -> None:
    node = leader()
    node.handle(NodeShutdownBegun())

    answer = fetch(node, fetch_request(3, at(0, 0), epoch=1))

    assert isinstance(node.state, Resigned)
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.leader_id is None


def test_a_log_that_diverges_does_not_count() -> None:
    node = leader(log=log_of((0, 0), end=4))
    node.disk_works()

    answer = fetch(node, fetch_request(2, at(6, 0), epoch=1))

    assert answer.diverging == at(4, 0)
    assert answer.read is None
    assert node.core.high_watermark is None
    assert isinstance(node.state, Leader)
    assert key_of(2) not in node.state.progress.replicas


def test_the_epoch_of_a_leader_has_a_begin_before_its_first_append_is_written() -> None:
    node = leader(log=log_of((0, 0), end=4))

    answer = fetch(node, fetch_request(2, at(5, 0), epoch=1))

    assert answer.diverging == at(4, 0)


def with_snapshots() -> LoneNode:
    node = established()
    node.propose(3)
    node.disk_works()
    node.ask(fetch_request(2, at(4, 1), epoch=1))
    node.handle(SnapshotsChanged((at(2, 1), at(3, 1)), Offset(2)))
    return node


def test_an_empty_follower_gets_the_newest_snapshot() -> None:
    node = with_snapshots()

    assert fetch(node, fetch_request(3, at(0, 0), epoch=1)).snapshot == at(3, 1)
    node = established()
    node.handle(SnapshotsChanged((at(1, 1),), Offset(0)))
    assert fetch(node, fetch_request(3, at(0, 0), epoch=1)).snapshot == at(1, 1)


def test_a_follower_behind_the_log_start_gets_the_newest_snapshot() -> None:
    assert fetch(with_snapshots(), fetch_request(3, at(1, 1), epoch=1)).snapshot == at(3, 1)


def snapshot_request(snapshot: OffsetAndEpoch, position: int = 0) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        replica=key_of(3),
        epoch=LeaderEpoch(1),
        snapshot=snapshot,
        position=position,
        max_bytes=10,
    )


def test_pieces_of_a_snapshot_are_read_where_they_are_asked_for() -> None:
    answer = with_snapshots().ask(snapshot_request(at(3, 1), 7))

    assert isinstance(answer, FetchSnapshotAnswer)
    assert answer.read == (at(3, 1), 7, 10)


@pytest.mark.parametrize(
    ("snapshot", "position", "error"),
    [
        (at(9, 1), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (at(0, 0), 0, ErrorCode.SNAPSHOT_NOT_FOUND),
        (at(3, 1), -1, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_snapshot_that_is_not_there_is_refused(
    snapshot: OffsetAndEpoch, position: int, error: ErrorCode
) -> None:
    answer = with_snapshots().ask(snapshot_request(snapshot, position))

    assert isinstance(answer, FetchSnapshotAnswer)
    assert (answer.error, answer.read) == (error, None)


def test_a_follower_refuses_a_fetch_of_a_snapshot() -> None:
    request = FetchSnapshotRequest(
        replica=key_of(3),
        epoch=LeaderEpoch(5),
        snapshot=at(3, 1),
        position=0,
        max_bytes=10,
    )

    answer = follower().ask(request)

    assert answer is not None
    assert answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Voters that are heard.


def test_a_voter_that_fetches_a_snapshot_is_heard() -> None:
    node = with_snapshots()

    for _ in range(4):
        node.wait(SETTINGS.check_quorum_ms - 10)
        node.ask(snapshot_request(at(3, 1)))

    assert isinstance(node.state, Leader)


@pytest.mark.parametrize(
    "replica", [key_of(9), ReplicaKey(BrokerId(2), key_of(3).directory_id), key_of(1)]
)
def test_a_replica_that_is_no_other_voter_is_not_heard(replica: ReplicaKey) -> None:
    node = leader()
    node.disk_works()

    for _ in range(3):
        node.wait(1_000)
        node.ask(
            FetchRequest(
                replica=replica,
                epoch=LeaderEpoch(1),
                end=at(1, 1),
                max_wait_ms=0,
                max_bytes=1000,
            )
        )

    assert isinstance(node.state, Resigned)
    assert node.core.high_watermark is None


def test_a_voter_that_does_not_answer_is_told_again_who_leads() -> None:
    node = leader()
    node.wait(0)

    node.fail(node.newest(BeginQuorumEpochRequest, 3))
    node.wait(SETTINGS.retry_backoff_ms)

    assert [sent.destination for sent in node.asked(BeginQuorumEpochRequest)] == [3]


def test_a_voter_that_has_answered_is_not_told_again_before_it_is_silent() -> None:
    node = leader()
    node.wait(0)
    for other in (2, 3):
        node.answer(BeginQuorumEpochRequest, other)
    sent = len(node.under_way)

    node.wait(SETTINGS.begin_epoch_ms - 1)

    assert len(node.under_way) == sent


# Whether it still leads.


def confirmed(node: LoneNode) -> list[int]:
    return [each.number for each in node.done(TellConfirmed)]


def test_a_leader_is_confirmed_by_voters_that_fetch_again_after_an_answer() -> None:
    node = established()
    node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1))

    node.handle(ConfirmationAsked(1))

    # The Fetch that is parked is answered, and that alone confirms nothing.
    assert len(answers(node)) == 1
    assert not confirmed(node)
    node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1))
    assert confirmed(node) == [1]


def test_a_fetch_that_was_on_its_way_confirms_nothing_and_is_answered_at_once() -> None:
    node = established()
    node.handle(ConfirmationAsked(1))

    assert node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1)) is not None
    assert not confirmed(node)
    assert node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1)) is None
    assert confirmed(node) == [1]


def test_an_observer_confirms_nothing() -> None:
    node = established()
    node.handle(ConfirmationAsked(1))

    for _ in range(3):
        node.ask(fetch_request(7, at(1, 1), epoch=1, max_wait_ms=0, high_watermark=1))

    assert not confirmed(node)


def test_one_fetch_confirms_all_questions_that_were_answered_before() -> None:
    node = established()
    node.handle(ConfirmationAsked(1))
    node.handle(ConfirmationAsked(2))
    node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1))

    node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1))

    assert confirmed(node) == [1, 2]


def test_a_sole_voter_is_confirmed_at_once() -> None:
    node = LoneNode(log=log_of(voters=(1,)))

    node.handle(ConfirmationAsked(1))

    assert confirmed(node) == [1]


def test_a_leader_that_resigned_is_confirmed_no_more() -> None:
    node = established()
    node.handle(ConfirmationAsked(1))
    node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1))
    node.wait(SETTINGS.check_quorum_ms + 1)

    assert isinstance(node.state, Resigned)
    node.ask(fetch_request(2, at(1, 1), epoch=1, high_watermark=1))
    assert not confirmed(node)


# A slow disk.


def fetch_all(node: LoneNode, *others: int, end: int, high_watermark: int = 1) -> None:
    for other in others:
        node.ask(fetch_request(other, at(end, 1), epoch=1, high_watermark=high_watermark))


def handed_over(node: LoneNode, sync_ms: int = 1_000) -> bool:
    node.handle(DiskSlow(sync_ms))
    return node.done(TellHandedOver) == [TellHandedOver(sync_ms)]


def test_a_leader_with_a_slow_disk_hands_over_while_the_others_commit() -> None:
    node = established()
    fetch_all(node, 2, 3, end=1)

    assert handed_over(node)
    assert isinstance(node.state, Resigned)
    assert len(node.asked(EndQuorumEpochRequest)) == 2


@pytest.mark.parametrize("others", [(), (2,)])
def test_a_leader_that_the_others_cannot_do_without_goes_on_with_a_slow_disk(
    others: tuple[int, ...],
) -> None:
    node = established()
    node.wait(SETTINGS.fetch_timeout_ms + 1)
    fetch_all(node, *others, end=1)

    assert not handed_over(node)
    assert isinstance(node.state, Leader)


def test_a_leader_among_disks_that_are_all_slow_goes_on() -> None:
    node = established()
    fetch_all(node, 2, 3, end=1)
    node.propose()
    node.wait(500)
    fetch_all(node, 2, 3, end=2)

    assert not handed_over(node, 600)
    # At some time its own is slower by far.
    assert handed_over(node, 2_500)


def test_a_sole_voter_does_not_hand_over() -> None:
    node = LoneNode(voters=[1])
    node.disk_works()
    assert not handed_over(node)
    assert isinstance(node.state, Leader)


def test_two_hand_overs_of_a_leader_are_some_time_apart() -> None:
    node = established()
    fetch_all(node, 2, 3, end=1)
    node.core._node.handed_over_ms = node.now_ms - HAND_OVER_PAUSE_MS + 1
    assert not handed_over(node)
    node.core._node.handed_over_ms -= 1
    assert handed_over(node)
