"""When a vote is granted, by the states of the table, and what a request for one leads to first."""

from __future__ import annotations

import pytest

from jbodlab.raft.election import election_timeout, successor_delay
from jbodlab.raft.events import DeadlineReached, DiskSlow, LeaderSuspected
from jbodlab.raft.instructions import ElectionState, WriteQuorumState
from jbodlab.raft.leading import HANDED_OVER_MS, SLOW_DISK_MS
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import FetchRequest, VoteRequest, VoteResponse
from jbodlab.raft.states import Follower, Leader, Prospective, QuorumCandidate, Unattached
from jbodlab.raft.tally import Tally
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, ReplicaKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, LeaderEpoch
from tests.jbodlab.raft.lone_node import (
    DRAW,
    MAKERS,
    SETTINGS,
    LoneNode,
    at,
    candidate,
    end_request,
    established,
    fetch_request,
    follower,
    leader,
    log_of,
    prospective,
    resigned,
    unattached,
    vote_request,
)
from tests.jbodlab.raft.world import key_of


def is_granted(node: LoneNode, request: VoteRequest) -> bool:
    answer = node.ask(request)
    assert isinstance(answer, VoteResponse)
    assert answer.error is ErrorCode.NONE
    return answer.is_granted


def with_log(name: str) -> LoneNode:
    """A node in a state, whose log has an end behind (10, 0) when the state began."""
    makers = {
        "unattached": unattached,
        "prospective": prospective,
        "candidate": candidate,
        "leader": leader,
        "follower": follower,
        "resigned": resigned,
    }
    return makers[name](log=log_of((0, 0), end=10))


@pytest.mark.parametrize(
    ("name", "pre_vote", "vote"),
    [
        ("unattached", True, True),
        ("prospective", True, None),
        ("candidate", True, False),
        ("resigned", True, False),
        ("leader", False, False),
        ("follower", True, False),
    ],
)
def test_each_state_grants_what_the_table_says(
    name: str, pre_vote: bool, vote: bool | None
) -> None:
    up_to_date = at(99, 1) if name in ("leader", "resigned") else at(10, 0)
    for is_pre_vote, expected in ((True, pre_vote), (False, vote)):
        node = with_log(name)
        if expected is None:
            continue  # In epoch 0 there is no real vote.
        epoch = node.state.epoch
        end = at(99, epoch - (not is_pre_vote)) if name in ("leader", "resigned") else up_to_date
        request = vote_request(3, epoch=epoch, end=end, pre=is_pre_vote)
        assert is_granted(node, request) is expected, (name, is_pre_vote)


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in ("leader", "resigned")])
def test_a_candidate_with_a_shorter_log_gets_no_vote(name: str) -> None:
    for is_pre_vote in (True, False):
        node = with_log(name)
        if is_pre_vote or node.state.epoch > 0:
            request = vote_request(3, epoch=node.state.epoch, end=at(9, 0), pre=is_pre_vote)
            assert not is_granted(node, request)


def test_epochs_of_logs_count_before_their_offsets() -> None:
    log = log_of((1, 0), (3, 10), end=11)
    for end, expected in ((at(99, 2), False), (at(11, 3), True), (at(10, 3), False)):
        node = LoneNode(log=log_of((1, 0), (3, 10), end=11))
        assert is_granted(node, vote_request(epoch=9, end=end)) is expected
    assert log.end == OffsetAndEpoch(*at(11, 3))


def test_a_vote_is_given_once_in_an_epoch_and_again_to_the_same_replica() -> None:
    node = unattached()

    assert is_granted(node, vote_request(2, epoch=6))
    assert not is_granted(node, vote_request(3, epoch=6))
    assert is_granted(node, vote_request(2, epoch=6))
    assert not node.done(WriteQuorumState)
    other_disk = ReplicaKey(BrokerId(2), key_of(3).directory_id)
    request = vote_request(2, epoch=6)
    again = VoteRequest(
        candidate=other_disk,
        epoch=request.epoch,
        voter=request.voter,
        end=request.end,
        is_pre_vote=False,
    )
    assert not is_granted(node, again)
    assert is_granted(node, vote_request(3, epoch=7))


def test_a_vote_without_a_directory_is_for_any_directory_of_the_node() -> None:
    voted = ReplicaKey(BrokerId(2), UNKNOWN_DIRECTORY)
    node = LoneNode(stored=ElectionState(epoch=LeaderEpoch(4), voted=voted))

    assert is_granted(node, vote_request(2, epoch=4))
    assert not is_granted(node, vote_request(3, epoch=4))


def test_a_vote_outlives_the_states_of_its_epoch() -> None:
    node = unattached()
    node.ask(vote_request(2, epoch=6))

    node.wait_until_due()
    assert isinstance(node.state, Prospective)
    assert not is_granted(node, vote_request(3, epoch=6))
    node.wait_until_due()
    assert isinstance(node.state, Unattached)
    assert not is_granted(node, vote_request(3, epoch=6))
    assert node.stored == ElectionState(epoch=LeaderEpoch(6), voted=key_of(2))


def test_a_follower_that_hears_its_leader_grants_no_pre_vote() -> None:
    node = follower(has_fetched=True)

    assert not is_granted(node, vote_request(3, epoch=5, pre=True))


def first_successor() -> LoneNode:
    """Asks 2, its leader that has resigned, and 3 for pre-votes in epoch 5."""
    node = follower(has_fetched=True)
    node.ask(end_request(5, 1, 3))
    node.wait(0)
    assert isinstance(node.state, Prospective)
    return node


def test_a_voter_that_has_not_heard_yet_that_its_leader_resigned_is_asked_again() -> None:
    node = first_successor()

    node.answer(VoteRequest, 3, leader=2, is_granted=False)
    # The process of the leader has ended.
    node.fail(node.newest(VoteRequest, 2))
    assert isinstance(node.state, Prospective)
    node.wait(SETTINGS.retry_backoff_ms)
    node.answer(VoteRequest, 3, leader=2, is_granted=True)

    assert isinstance(node.state, QuorumCandidate)


def test_a_voter_that_goes_on_refusing_a_successor_is_asked_less_and_less_often() -> None:
    # It may have the longer log, which its answer does not tell.
    node, asked = first_successor(), []

    while node.now_ms < DRAW:
        node.answer(VoteRequest, 3, leader=2, is_granted=False)
        assert node.core.next_deadline_ms is not None
        node.wait(node.core.next_deadline_ms - node.now_ms)
        asked.append(node.now_ms)

    assert asked == [20, 40, 80, 160, 320, 640, DRAW]


def test_a_refusal_of_a_voter_that_follows_nobody_counts_when_the_leader_has_resigned() -> None:
    node = first_successor()

    for each in (2, 3):
        node.answer(VoteRequest, each, is_granted=False)

    assert isinstance(node.state, Follower)


def test_a_voter_that_hears_a_leader_which_has_not_resigned_is_not_asked_again() -> None:
    node = follower(has_fetched=True)
    node.wait_until_due()

    node.answer(VoteRequest, 3, leader=2, is_granted=False)
    node.wait(SETTINGS.retry_backoff_ms)

    assert [each.destination for each in node.under_way].count(BrokerId(3)) == 1


def test_a_follower_grants_a_pre_vote_when_its_leader_has_resigned() -> None:
    node = follower(has_fetched=True)

    node.ask(end_request(5, 3, 1))

    assert is_granted(node, vote_request(3, epoch=5, pre=True))
    assert not is_granted(node, vote_request(3, epoch=5))


def test_a_follower_grants_a_pre_vote_when_it_suspects_its_leader() -> None:
    node = follower(has_fetched=True)

    node.handle(LeaderSuspected())

    assert is_granted(node, vote_request(3, epoch=5, pre=True))
    node.answer(FetchRequest, leader=2)
    assert not is_granted(node, vote_request(3, epoch=5, pre=True))


def test_a_lower_epoch_is_fenced() -> None:
    node = unattached()

    answer = node.ask(vote_request(epoch=4, pre=True))

    assert isinstance(answer, VoteResponse)
    assert (answer.error, answer.is_granted) == (ErrorCode.FENCED_LEADER_EPOCH, False)
    assert answer.epoch == 5


def test_a_pre_vote_with_a_higher_epoch_is_entered() -> None:
    node = leader()

    is_granted(node, vote_request(epoch=7, pre=True))

    assert node.state.epoch == 7
    assert node.stored == ElectionState(epoch=LeaderEpoch(7))


@pytest.mark.parametrize(
    ("candidate_id", "epoch", "end", "pre"),
    [
        (2, 5, at(-1, 0), False),
        (2, 5, at(0, -1), False),
        (2, 5, at(0, 5), False),
        (2, 5, at(0, 6), True),
        (-1, 5, at(0, 0), True),
    ],
)
def test_a_request_that_cannot_be_is_refused(
    candidate_id: int, epoch: int, end: OffsetAndEpoch, pre: bool
) -> None:
    node = unattached()
    request = VoteRequest(
        candidate=ReplicaKey(BrokerId(candidate_id)),
        epoch=LeaderEpoch(epoch),
        voter=None,
        end=end,
        is_pre_vote=pre,
    )

    answer = node.ask(request)

    assert answer is not None
    assert answer.error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    "meant", [key_of(2), ReplicaKey(BrokerId(1), DirectoryId(key_of(2).directory_id))]
)
def test_a_vote_for_another_replica_is_not_given_and_its_epoch_is_entered(
    meant: ReplicaKey,
) -> None:
    node = unattached()
    request = VoteRequest(
        candidate=key_of(3), epoch=LeaderEpoch(8), voter=meant, end=at(0, 0), is_pre_vote=False
    )

    answer = node.ask(request)

    assert isinstance(answer, VoteResponse)
    assert (answer.error, answer.is_granted) == (ErrorCode.INVALID_VOTER_KEY, False)
    assert node.stored == ElectionState(epoch=LeaderEpoch(8))


def test_voters_without_an_answer_are_asked_again_after_a_pause() -> None:
    node = candidate()

    node.fail(node.newest(VoteRequest, 3))
    assert not node.asked(VoteRequest)
    node.wait(20)

    assert [sent.destination for sent in node.asked(VoteRequest)] == [3]


def test_an_error_is_no_refusal() -> None:
    node = candidate()

    for voter in (2, 3):
        node.answer(VoteRequest, voter, error=ErrorCode.INVALID_VOTER_KEY)
    node.wait(20)

    assert [sent.destination for sent in node.asked(VoteRequest)] == [2, 3]


def test_answers_of_a_former_state_are_dropped() -> None:
    node = prospective()
    asked = node.newest(VoteRequest, 2), node.newest(VoteRequest, 3)
    node.wait_until_due()
    node.wait(0)
    node.wait_until_due()

    for sent in asked:
        node.reply(sent, VoteResponse(epoch=LeaderEpoch(0), leader_id=None, is_granted=True))

    assert isinstance(node.state, Prospective | Unattached)


def test_an_answer_of_a_lower_epoch_is_no_vote() -> None:
    node = candidate()

    node.answer(VoteRequest, 2, epoch=0, is_granted=True)

    assert not isinstance(node.state, Leader)


def test_a_refusal_that_names_the_leader_makes_a_follower() -> None:
    node = prospective()

    node.answer(VoteRequest, 3, epoch=4, leader=2, error=ErrorCode.FENCED_LEADER_EPOCH)

    assert isinstance(node.state, Follower)
    assert (node.state.epoch, node.state.leader_id) == (4, 2)


def test_an_election_timer_is_between_one_and_two_times_its_setting() -> None:
    assert election_timeout(1_000, 0.0) == 1_000
    assert election_timeout(1_000, 0.999) == 1_999


def test_successors_wait_twice_as_long_each() -> None:
    keys = [key_of(each) for each in (1, 2, 3, 4)]

    delays = [successor_delay(key, keys, 1_000) for key in keys]

    assert delays == [0, 125, 250, 500]
    assert successor_delay(key_of(9), keys, 1_000) == 1_000
    assert successor_delay(keys[1], keys[:2], 1_000) == 125


def test_a_successor_keeps_its_delay_when_it_refuses_one_that_lacks_records() -> None:
    node = follower(log=log_of((0, 0), end=10))
    node.ask(end_request(5, 3, 1))
    delay_ms = node.state.deadline_ms

    assert not is_granted(node, vote_request(3, epoch=6, end=at(9, 0)))

    assert isinstance(node.state, Unattached)
    assert node.state.epoch == 6
    assert node.state.deadline_ms == delay_ms
    # One that has all records gets the vote, and time to win.
    other = follower(log=log_of((0, 0), end=10))
    other.ask(end_request(5, 3, 1))
    assert is_granted(other, vote_request(3, epoch=6, end=at(10, 0)))
    assert other.state.deadline_ms > delay_ms


def tally(*voters: int) -> Tally:
    keys = tuple(key_of(each) for each in voters)
    return Tally(majority=len(keys) // 2 + 1, voters=keys, granted=(voters[0],))


def test_a_tally_counts_each_voter_once() -> None:
    counted = tally(1, 2, 3, 4, 5)
    for _ in range(3):
        counted = counted.counted(2, is_granted=True)

    assert not counted.is_won
    assert counted.counted(3, is_granted=True).is_won


def test_a_tally_counts_voters_only() -> None:
    assert not tally(1, 2, 3).counted(BrokerId(9), is_granted=True).is_won


def test_a_tally_is_lost_when_a_majority_cannot_be_reached() -> None:
    counted = tally(1, 2, 3, 4, 5).counted(BrokerId(2), is_granted=False)
    assert not counted.counted(BrokerId(3), is_granted=False).is_lost
    lost = counted.counted(BrokerId(3), is_granted=False).counted(BrokerId(4), is_granted=False)
    assert lost.is_lost


# A slow disk.


@pytest.mark.parametrize("make", [unattached, follower])
def test_a_voter_with_a_slow_disk_lets_others_be_elected_first(make: type[LoneNode]) -> None:
    node = make()
    node.handle(DiskSlow(1_000))
    kind = type(node.state)
    node.wait_until_due()
    since_ms = node.now_ms
    while isinstance(node.state, kind):
        node.wait_until_due()
    # Nobody else has become the leader.
    assert isinstance(node.state, Prospective)
    assert node.now_ms == since_ms + SETTINGS.election_timeout_ms


def test_a_successor_with_a_slow_disk_lets_the_next_one_be_elected() -> None:
    node = follower()
    node.handle(DiskSlow(1_000))
    node.ask(end_request(5, 1, 3))
    node.wait_until_due()
    assert isinstance(node.state, Follower)
    assert node.state.deadline_ms == node.now_ms + SETTINGS.election_timeout_ms


def test_a_disk_that_was_slow_long_ago_keeps_nobody_from_being_elected() -> None:
    node = follower()
    node.handle(DiskSlow(1_000))
    node.now_ms += SLOW_DISK_MS
    node.handle(DeadlineReached())
    assert isinstance(node.state, Prospective)


def test_a_leader_that_handed_over_for_its_disk_is_reluctant_for_longer() -> None:
    node = established()
    for other in (2, 3):
        node.ask(fetch_request(other, at(1, 1), epoch=1, high_watermark=1))
    node.handle(DiskSlow(1_000))
    node.handle(DiskSlow(1_000))
    assert node.core._node.reluctant_until_ms == node.now_ms + HANDED_OVER_MS
