"""The table of transitions: each row is a test."""

from __future__ import annotations

import pytest

from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.raft.events import LeaderSuspected, NodeShutdownBegun, ResignRequested
from jbodlab.raft.instructions import (
    AppendControl,
    BeginEpoch,
    ElectionState,
    Respond,
    TellLeader,
    WriteQuorumState,
)
from jbodlab.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    QuorumFetchAnswer,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import (
    Follower,
    Leader,
    Prospective,
    QuorumCandidate,
    Resigned,
    Unattached,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import QuorumViolationError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from tests.jbodlab.raft.lone_node import (
    DRAW,
    MAKERS,
    MORE_ENDPOINTS,
    SETTINGS,
    LoneNode,
    at,
    begin_request,
    candidate,
    end_request,
    endpoints_of,
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


def stored(epoch: int, leader: int | None = None, voted: int | None = None) -> ElectionState:
    return ElectionState(
        epoch=LeaderEpoch(epoch),
        leader_id=None if leader is None else BrokerId(leader),
        voted=None if voted is None else key_of(voted),
    )


# The start.


def test_a_node_without_a_file_starts_unattached_in_the_epoch_of_its_log() -> None:
    node = LoneNode(log=log_of((3, 0), (7, 10), end=12))

    assert node.state == Unattached(epoch=LeaderEpoch(7), deadline_ms=DRAW)
    assert node.done(WriteQuorumState)[0].state == stored(7)


def test_a_node_whose_file_is_older_than_its_log_starts_in_the_epoch_of_the_log() -> None:
    node = LoneNode(log=log_of((7, 0), end=12), stored=stored(6, leader=2, voted=2))

    assert node.state == Unattached(epoch=LeaderEpoch(7), deadline_ms=DRAW)


def test_a_node_that_led_starts_resigned() -> None:
    node = LoneNode(stored=stored(4, leader=1))

    assert isinstance(node.state, Resigned)
    assert (node.state.epoch, node.state.deadline_ms) == (4, DRAW)
    assert [sent.destination for sent in node.asked(EndQuorumEpochRequest)] == [2, 3]
    assert node.core.leader_id is None


def test_a_node_that_was_a_candidate_starts_as_candidate_of_the_same_epoch() -> None:
    node = LoneNode(stored=stored(4, voted=1))

    assert isinstance(node.state, QuorumCandidate)
    assert (node.state.epoch, node.state.deadline_ms) == (4, DRAW)
    assert [sent.destination for sent in node.asked(VoteRequest)] == [2, 3]


def test_a_candidate_that_knows_the_leader_of_its_epoch_starts_as_follower() -> None:
    node = LoneNode(stored=stored(4, leader=2, voted=1))

    assert isinstance(node.state, Follower)
    assert node.state.voted == key_of(1)


def test_a_node_that_knows_its_leader_starts_as_follower() -> None:
    node = LoneNode(stored=stored(4, leader=2, voted=3))

    assert isinstance(node.state, Follower)
    assert (node.state.epoch, node.state.leader_id, node.state.voted) == (4, 2, key_of(3))
    assert node.state.deadline_ms == SETTINGS.fetch_timeout_ms
    assert node.asked(FetchRequest)[0].destination == 2


def test_a_node_that_cannot_reach_its_leader_keeps_it_and_votes_for_nobody() -> None:
    node = LoneNode(stored=stored(4, leader=9))

    assert node.state == Unattached(epoch=LeaderEpoch(4), leader_id=BrokerId(9), deadline_ms=DRAW)
    vote = node.ask(vote_request(epoch=4))
    assert isinstance(vote, VoteResponse)
    assert not vote.is_granted


def test_a_candidate_that_cannot_reach_the_leader_of_its_epoch_starts_unattached() -> None:
    node = LoneNode(stored=stored(4, leader=9, voted=1))

    assert isinstance(node.state, Unattached)
    assert (node.state.leader_id, node.state.voted) == (9, key_of(1))


def test_a_node_keeps_its_vote_over_a_restart() -> None:
    node = LoneNode(stored=stored(4, voted=3))

    assert node.state == Unattached(epoch=LeaderEpoch(4), voted=key_of(3), deadline_ms=DRAW)
    assert not node.done(WriteQuorumState)


@pytest.mark.parametrize(
    ("before", "epoch"),
    [(None, 1), (stored(4, leader=1), 5), (stored(4, leader=2), 5), (stored(4, voted=1), 4)],
)
def test_a_sole_voter_leads_at_once(before: ElectionState | None, epoch: int) -> None:
    node = LoneNode(voters=[1], stored=before)

    assert isinstance(node.state, Leader)
    assert node.state.epoch == epoch
    assert node.last[-1] == TellLeader(LeaderEpoch(epoch), BrokerId(1)) or node.done(AppendControl)
    # Nobody follows it, and nobody should.
    assert node.core.next_deadline_ms is None


# Unattached.


def test_an_unattached_voter_becomes_prospective_when_its_timer_ends() -> None:
    node = unattached()
    before = node.stored

    node.wait_until_due()

    assert isinstance(node.state, Prospective)
    assert node.state.deadline_ms == node.now_ms + DRAW
    assert node.stored == before
    assert all(sent.request.is_pre_vote for sent in node.asked(VoteRequest))  # type: ignore[union-attr]
    assert [sent.destination for sent in node.asked(VoteRequest)] == [2, 3]


def test_an_observer_has_no_election_timer() -> None:
    node = LoneNode(voters=[2, 3, 4])

    assert node.state == Unattached(epoch=LeaderEpoch(0), deadline_ms=None)
    node.ask(vote_request(epoch=5))
    node.wait(60_000)
    assert isinstance(node.state, Unattached)
    assert node.state.epoch == 5


@pytest.mark.parametrize("make", [unattached, prospective])
def test_a_granted_vote_is_kept_and_begins_the_timer_anew(make: type[LoneNode]) -> None:
    node = make()
    node.now_ms += 100

    vote = node.ask(vote_request(3, epoch=5))

    assert isinstance(vote, VoteResponse)
    assert vote.is_granted
    assert node.state.voted == key_of(3)
    assert node.stored == stored(5, voted=3)
    assert node.state.deadline_ms == node.now_ms + DRAW  # type: ignore[union-attr]


def test_a_prospective_node_that_grants_its_vote_asks_all_voters_again() -> None:
    node = unattached()
    node.wait_until_due()
    node.answer(VoteRequest, 3, is_granted=False)

    node.ask(vote_request(3, epoch=5))

    assert isinstance(node.state, Prospective)
    assert node.state.voted == key_of(3)
    assert node.state.tally.refused == ()
    assert node.state.deadline_ms == node.now_ms + DRAW
    assert [sent.destination for sent in node.asked(VoteRequest)] == [2, 3]


# Prospective.


def test_a_majority_of_pre_votes_makes_a_candidate_of_the_next_epoch() -> None:
    node = prospective()

    node.answer(VoteRequest, 3, is_granted=True)

    assert isinstance(node.state, QuorumCandidate)
    assert node.state.deadline_ms == node.now_ms + DRAW
    assert node.stored == stored(1, voted=1)
    assert not any(sent.request.is_pre_vote for sent in node.asked(VoteRequest))  # type: ignore[union-attr]


def test_a_prospective_node_that_loses_follows_the_leader_that_it_knows() -> None:
    node = follower(has_fetched=True)
    node.wait_until_due()
    assert isinstance(node.state, Prospective)

    for voter in (2, 3):
        node.answer(VoteRequest, voter, leader=2, is_granted=False)

    assert isinstance(node.state, Follower)
    assert (node.state.epoch, node.state.leader_id) == (5, 2)
    assert node.state.deadline_ms == node.now_ms + SETTINGS.fetch_timeout_ms
    assert not node.state.has_fetched


def test_a_prospective_node_whose_timer_ends_follows_the_leader_that_it_knows() -> None:
    node = follower()
    node.wait_until_due()

    node.wait_until_due()

    assert isinstance(node.state, Follower)
    assert node.state.deadline_ms == node.now_ms + SETTINGS.fetch_timeout_ms


def test_a_prospective_node_that_loses_without_a_leader_is_unattached_with_a_new_timer() -> None:
    node = prospective()
    node.now_ms += 10

    for voter in (2, 3):
        node.answer(VoteRequest, voter, is_granted=False)

    assert node.state == Unattached(epoch=LeaderEpoch(0), deadline_ms=node.now_ms + DRAW)


def test_a_prospective_node_whose_timer_ends_without_a_leader_asks_again_at_once() -> None:
    node = prospective()

    node.wait_until_due()

    assert node.state == Unattached(epoch=LeaderEpoch(0), deadline_ms=node.now_ms)


def test_a_voter_that_knows_no_pre_vote_is_asked_for_its_vote() -> None:
    node = prospective()

    node.fail(node.newest(VoteRequest, 2), ErrorCode.UNSUPPORTED_VERSION)

    assert isinstance(node.state, QuorumCandidate)
    assert node.stored == stored(1, voted=1)


# Candidate.


def test_a_majority_of_votes_makes_a_leader() -> None:
    node = candidate(log=log_of((0, 0), end=4))

    node.answer(VoteRequest, 2, is_granted=True)

    assert isinstance(node.state, Leader)
    assert node.state.start_offset == 4
    assert node.stored == stored(1, leader=1)
    kinds = [type(each) for each in node.last]
    assert kinds[:4] == [WriteQuorumState, TellLeader, BeginEpoch, AppendControl]
    (change,) = node.done(AppendControl)[0].records
    assert isinstance(change, LeaderChangeMessage)
    assert [each.voter_id for each in change.voters] == [1, 2, 3]
    assert [each.voter_id for each in change.granting_voters] == [1, 2]


def test_a_leader_tells_all_voters_at_once_and_then_those_that_are_silent() -> None:
    node = leader()

    node.wait(0)

    assert [sent.destination for sent in node.asked(BeginQuorumEpochRequest)] == [2, 3]
    for voter in (2, 3):
        node.answer(BeginQuorumEpochRequest, voter)
    node.wait(600)
    node.ask(fetch_request(2, at(0, 0), epoch=1))
    node.wait(SETTINGS.begin_epoch_ms - 600)
    assert [sent.destination for sent in node.asked(BeginQuorumEpochRequest)] == [3]


def test_a_candidate_that_lost_waits_for_its_timer() -> None:
    node = candidate()
    deadline = node.state.deadline_ms  # type: ignore[union-attr]

    for voter in (2, 3):
        node.answer(VoteRequest, voter, is_granted=False)

    assert isinstance(node.state, QuorumCandidate)
    assert node.state.deadline_ms == deadline


def test_a_candidate_whose_timer_ends_is_prospective_in_the_same_epoch() -> None:
    node = candidate()

    node.wait_until_due()

    assert isinstance(node.state, Prospective)
    assert (node.state.epoch, node.state.voted) == (1, key_of(1))
    assert node.state.deadline_ms == node.now_ms + DRAW


# Follower.


def test_a_follower_whose_fetch_timer_ends_is_prospective_and_keeps_its_leader() -> None:
    node = follower()

    node.wait_until_due()

    assert isinstance(node.state, Prospective)
    assert (node.state.epoch, node.state.leader_id) == (5, 2)
    assert node.state.deadline_ms == node.now_ms + DRAW


def test_a_good_answer_begins_the_fetch_timer_anew() -> None:
    node = follower()
    node.now_ms += 1_900

    node.answer(FetchRequest, leader=2)

    assert isinstance(node.state, Follower)
    assert node.state.has_fetched
    assert node.state.deadline_ms == node.now_ms + SETTINGS.fetch_timeout_ms


def test_an_observer_never_stands_for_election() -> None:
    node = follower(voters=[2, 3, 4])

    node.wait(60_000)

    assert isinstance(node.state, Follower)


@pytest.mark.parametrize(("successors", "delay"), [((1, 3), 0), ((3, 1), 125), ((3,), 1_000)])
def test_a_follower_of_a_leader_that_resigned_stays_until_its_turn(
    successors: tuple[int, ...], delay: int
) -> None:
    node = follower()

    node.ask(end_request(5, *successors))

    assert isinstance(node.state, Follower)
    assert node.state.deadline_ms == node.now_ms + delay
    assert node.state.is_resigned


def test_a_late_answer_of_a_leader_that_resigned_prolongs_nothing() -> None:
    node = follower()
    node.ask(end_request(5, 3, 1))

    node.now_ms += 100
    node.answer(FetchRequest, leader=2)

    assert node.state.deadline_ms == 125  # type: ignore[union-attr]


# Any state.


@pytest.mark.parametrize("name", MAKERS)
def test_a_higher_epoch_without_a_leader_makes_unattached(name: str) -> None:
    node = MAKERS[name]()
    before = getattr(node.state, "deadline_ms", None)
    node.now_ms += 10

    node.ask(vote_request(epoch=9, pre=True, end=at(0, 0)))

    keeps = name in ("unattached", "prospective", "candidate", "resigned")
    assert isinstance(node.state, Unattached)
    assert node.state.deadline_ms == (before if keeps else node.now_ms + DRAW)
    assert node.stored == stored(9)


@pytest.mark.parametrize("name", MAKERS)
def test_the_leader_of_a_higher_epoch_is_followed(name: str) -> None:
    node = MAKERS[name]()

    node.ask(begin_request(3, epoch=9))

    assert isinstance(node.state, Follower)
    assert (node.state.leader_id, node.state.voted) == (3, None)
    assert node.state.deadline_ms == node.now_ms + SETTINGS.fetch_timeout_ms
    assert node.stored == stored(9, leader=3)


@pytest.mark.parametrize("name", ["unattached", "prospective", "candidate"])
def test_the_leader_of_the_same_epoch_is_followed_and_the_vote_is_kept(name: str) -> None:
    node = MAKERS[name]()
    voted = node.state.voted

    node.ask(begin_request(2, epoch=node.state.epoch))

    assert isinstance(node.state, Follower)
    assert node.stored == ElectionState(epoch=node.state.epoch, leader_id=BrokerId(2), voted=voted)
    assert (voted is None) == (name != "candidate")


def test_a_leader_without_endpoints_is_remembered_and_not_followed() -> None:
    node = LoneNode()

    node.ask(begin_request(9, epoch=5, endpoints=()))

    assert node.stored == stored(5, leader=9)
    assert isinstance(node.state, Unattached)


def test_a_prospective_node_follows_the_leader_that_it_hears_again() -> None:
    node = follower()
    node.wait_until_due()

    node.answer(VoteRequest, 3, leader=2, is_granted=False, leader_endpoints=endpoints_of(2))
    assert isinstance(node.state, Prospective)
    node.ask(begin_request(2, epoch=5))

    assert isinstance(node.state, Follower)


def test_a_follower_takes_more_endpoints_of_its_leader() -> None:
    node = follower(has_fetched=True)

    node.ask(begin_request(2, epoch=5, endpoints=MORE_ENDPOINTS))

    assert isinstance(node.state, Follower)
    assert node.state.endpoints == MORE_ENDPOINTS
    assert not node.state.has_fetched
    node.ask(begin_request(2, epoch=5))
    assert node.state.endpoints == MORE_ENDPOINTS


# Leader and Resigned.


@pytest.mark.parametrize("request_of", [begin_request, vote_request])
def test_a_leader_that_hears_of_a_higher_epoch_answers_the_fetches_that_wait(
    request_of: type[VoteRequest],
) -> None:
    node = established()
    assert node.ask(fetch_request(3, at(1, 1), epoch=1, high_watermark=1)) is None
    waiting = node.requests

    node.ask(request_of(3, epoch=2))  # type: ignore[call-arg, misc]

    answers = {each.request_id: each.answer for each in node.done(Respond)}
    refused = answers[waiting]
    assert isinstance(refused, QuorumFetchAnswer)
    assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.epoch == 2


@pytest.mark.parametrize("make", [leader, resigned])
def test_others_may_say_of_a_leader_that_it_leads_its_epoch(make: type[LoneNode]) -> None:
    node = make()
    node.wait(0)
    kind = BeginQuorumEpochRequest if isinstance(node.state, Leader) else EndQuorumEpochRequest
    before = type(node.state)

    node.answer(kind, 2, leader=1)

    assert type(node.state) is before


def test_a_leader_without_a_majority_resigns() -> None:
    node = leader()

    node.wait(SETTINGS.check_quorum_ms - 1)
    assert isinstance(node.state, Leader)
    node.wait(1)

    assert isinstance(node.state, Resigned)
    assert node.stored == stored(1, leader=1)
    assert node.done(TellLeader) == [TellLeader(LeaderEpoch(1), None)]
    assert [sent.destination for sent in node.asked(EndQuorumEpochRequest)] == [2, 3]


def test_the_timers_of_a_leader_are_parts_of_the_fetch_timeout() -> None:
    assert RaftSettings().check_quorum_ms == 3_000
    assert RaftSettings(fetch_timeout_ms=600).check_quorum_ms == 900
    assert RaftSettings(fetch_timeout_ms=600).begin_epoch_ms == 300


def test_a_leader_that_hears_a_majority_goes_on() -> None:
    node = leader()

    for _ in range(5):
        node.wait(SETTINGS.check_quorum_ms - 100)
        node.ask(fetch_request(2, at(0, 0), epoch=1))

    assert isinstance(node.state, Leader)


@pytest.mark.parametrize("event", [ResignRequested(), NodeShutdownBegun()])
def test_a_leader_resigns_when_it_is_asked_to(event: ResignRequested | NodeShutdownBegun) -> None:
    node = established()
    node.ask(fetch_request(3, at(1, 1), epoch=1, high_watermark=1))

    node.handle(event)

    assert isinstance(node.state, Resigned)
    assert node.state.deadline_ms == node.now_ms + DRAW
    (answer,) = node.done(Respond)
    assert isinstance(answer.answer, QuorumFetchAnswer)
    assert answer.answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.answer.leader_id is None


def test_a_resigned_node_names_the_voters_with_the_longest_logs_first() -> None:
    node = prospective(voters=[1, 2, 3, 4])
    for _ in ("pre-votes", "votes"):
        node.answer(VoteRequest, 2, is_granted=True)
        node.answer(VoteRequest, 3, is_granted=True)
    node.disk_works()
    node.ask(fetch_request(3, at(1, 1), epoch=1))
    node.ask(fetch_request(4, at(0, 0), epoch=1))

    node.handle(ResignRequested())

    request = node.asked(EndQuorumEpochRequest)[0].request
    assert isinstance(request, EndQuorumEpochRequest)
    assert request.successors == (key_of(3), key_of(4), key_of(2))


def test_a_resigned_node_tells_the_voters_until_they_answer() -> None:
    node = resigned()

    node.answer(EndQuorumEpochRequest, 2)
    assert not node.asked(EndQuorumEpochRequest)
    node.fail(node.newest(EndQuorumEpochRequest, 3))
    node.wait(SETTINGS.retry_backoff_ms)

    assert [sent.destination for sent in node.asked(EndQuorumEpochRequest)] == [3]


def test_a_resigned_node_leaves_its_epoch_when_its_timer_ends() -> None:
    node = resigned()

    node.wait_until_due()

    assert node.state == Unattached(epoch=LeaderEpoch(2), deadline_ms=node.now_ms)
    assert node.stored == stored(2)


def test_a_node_that_ends_stays_resigned() -> None:
    node = leader()

    node.handle(NodeShutdownBegun())
    node.wait(60_000)

    assert isinstance(node.state, Resigned)


def test_a_node_that_ends_does_not_stand_for_election() -> None:
    for make in (follower, unattached):
        node = make()
        node.handle(NodeShutdownBegun())
        node.wait(60_000)

        assert not any(isinstance(sent.request, VoteRequest) for sent in node.under_way)


# A suspected leader.


def test_a_suspicion_cuts_the_fetch_timer_by_the_place_of_the_voter() -> None:
    first = follower(has_fetched=True)
    second = follower(voters=[0, 1, 2], log=log_of(voters=[0, 1, 2]), has_fetched=True)

    for node in (first, second):
        node.handle(LeaderSuspected())

    assert first.state.deadline_ms == first.now_ms + 100  # type: ignore[union-attr]
    assert second.state.deadline_ms == second.now_ms + 160  # type: ignore[union-attr]


def test_a_suspicion_never_prolongs_the_fetch_timer() -> None:
    node = follower()
    node.now_ms += SETTINGS.fetch_timeout_ms - 20

    node.handle(LeaderSuspected())

    assert node.state.deadline_ms == SETTINGS.fetch_timeout_ms  # type: ignore[union-attr]


def test_any_answer_of_the_leader_ends_the_suspicion() -> None:
    node = follower()

    node.handle(LeaderSuspected())
    node.answer(FetchRequest, leader=2, error=ErrorCode.BROKER_NOT_AVAILABLE)

    assert isinstance(node.state, Follower)
    assert not node.state.is_suspected
    assert node.state.deadline_ms == SETTINGS.fetch_timeout_ms


def test_a_suspicion_that_was_wrong_is_not_repeated_before_the_timer_would_have_ended() -> None:
    node = follower()
    node.handle(LeaderSuspected())
    node.wait_until_due()
    for voter in (2, 3):
        node.answer(VoteRequest, voter, leader=2, is_granted=False)

    node.handle(LeaderSuspected())

    assert isinstance(node.state, Follower)
    assert not node.state.is_suspected
    node.now_ms = SETTINGS.fetch_timeout_ms
    node.handle(LeaderSuspected())
    assert node.state.is_suspected  # type: ignore[union-attr]


# Contradictions.


def test_no_node_is_made_a_follower_of_itself() -> None:
    node = unattached()

    with pytest.raises(QuorumViolationError, match="take 1:"):
        node.answer(FetchRequest, epoch=9, leader=1)


def test_another_node_cannot_say_that_this_one_leads() -> None:
    node = unattached()

    answer = node.ask(begin_request(1, epoch=9))

    assert answer is not None
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert node.state.epoch == 5


@pytest.mark.parametrize("make", [leader, follower, resigned])
def test_an_epoch_has_one_leader(make: type[LoneNode]) -> None:
    node = make()
    epoch = node.state.epoch

    with pytest.raises(QuorumViolationError, match="two leaders"):
        node.ask(begin_request(3, epoch=epoch))


def test_no_observer_becomes_prospective() -> None:
    node = LoneNode(voters=[2, 3, 4])

    with pytest.raises(QuorumViolationError, match="no voter"):
        node.core._node.become_prospective()


def test_no_epoch_goes_back() -> None:
    node = unattached()

    with pytest.raises(QuorumViolationError, match="goes back"):
        node.core._node.become_unattached(LeaderEpoch(4))


def test_a_state_that_cannot_follow_is_refused() -> None:
    node = leader()

    with pytest.raises(QuorumViolationError, match="cannot become"):
        node.core._node.become_prospective()
