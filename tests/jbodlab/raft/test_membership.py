"""Changes of the voter set by a leader; KIP-853 and `jbodlab.raft.membership`."""

from __future__ import annotations

import pytest

from jbodlab.metadata.records.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    KRaftVoter,
    KRaftVotersRecord,
    LeaderChangeMessage,
)
from jbodlab.raft.events import ResignRequested, ResponseReceived
from jbodlab.raft.instructions import AppendControl, ElectionState, Respond
from jbodlab.raft.membership import LAG_MAX
from jbodlab.raft.messages import (
    AddVoterRequest,
    Answer,
    EndQuorumEpochRequest,
    RaiseKRaftVersionRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeAnswer,
    VoterChangeRequest,
)
from jbodlab.raft.states import Leader, Resigned
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, VERSIONS, History, ReplicaKey, VoterSet
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch
from tests.jbodlab.raft.lone_node import (
    MORE_ENDPOINTS,
    ONLY_LEVEL_0,
    SETTINGS,
    LoneNode,
    at,
    endpoints_of,
    established,
    fetch_request,
    follower,
    leader,
    log_of,
    moved,
    static_log,
)
from tests.jbodlab.raft.world import key_of, voter


def adding(node: int = 4, **more: object) -> AddVoterRequest:
    given = {"voter": key_of(node), "endpoints": endpoints_of(node), "timeout_ms": 30_000} | more
    return AddVoterRequest(**given)  # type: ignore[arg-type]


def removing(node: int) -> RemoveVoterRequest:
    return RemoveVoterRequest(voter=key_of(node))


def updating(voter: KRaftVoter, epoch: int = 1) -> UpdateVoterRequest:
    return UpdateVoterRequest(epoch=LeaderEpoch(epoch), voter=voter)


def fetches(node: LoneNode, replica: int, offset: int | None = None) -> None:
    """Let a replica ask for what follows an offset: the end of the log, if none is named."""
    end = node.core.end_offset if offset is None else offset
    node.ask(fetch_request(replica, at(end, 1), epoch=1, max_wait_ms=0))


def told(node: LoneNode) -> list[tuple[ErrorCode, str]]:
    """The answers about changes that the last event led to."""
    answers = [each.answer for each in node.done(Respond)]
    return [(each.error, each.message) for each in answers if isinstance(each, VoterChangeAnswer)]


def error_of(node: LoneNode, request: VoterChangeRequest) -> ErrorCode | None:
    """The error that a request is refused with at once; None: it waits."""
    answer: Answer | None = node.ask(request)
    return None if answer is None else answer.error


def versions_told(node: LoneNode, versions: KRaftVersionFeature = VERSIONS) -> None:
    sent = node.newest(VersionsRequest)
    node.handle(ResponseReceived(sent.request_id, VersionsResponse(versions=versions)))


def appended_voters(node: LoneNode) -> list[int]:
    (control,) = node.done(AppendControl)
    (record,) = control.records
    assert isinstance(record, KRaftVotersRecord)
    return [each.voter_id for each in record.voters]


def with_observer(**more: object) -> LoneNode:
    """A leader of three voters with an observer 4 that has all."""
    node = established(**more)
    fetches(node, 4)
    return node


def added(**more: object) -> LoneNode:
    """It has appended the set with voter 4, and nobody has it yet."""
    node = with_observer()
    node.ask(adding(**more))
    versions_told(node)
    return node


# AddRaftVoter.


def test_a_new_voter_is_asked_what_it_supports_before_it_is_appended() -> None:
    node = with_observer()

    assert error_of(node, adding()) is None

    (sent,) = node.asked(VersionsRequest)
    assert (sent.destination, sent.endpoints) == (4, endpoints_of(4))
    assert not node.done(AppendControl)
    versions_told(node)
    assert appended_voters(node) == [1, 2, 3, 4]
    assert node.core.voters.ids == (1, 2, 3, 4)


def test_an_addition_is_answered_when_a_majority_of_the_new_set_has_it() -> None:
    node = added()
    node.disk_works()
    fetches(node, 2)
    assert told(node) == []

    fetches(node, 4)

    assert told(node) == [(ErrorCode.NONE, "")]


def test_an_addition_that_acks_no_commit_is_answered_when_it_is_appended() -> None:
    node = added(acks_commit=False)

    assert told(node) == [(ErrorCode.NONE, "")]


def test_one_who_does_not_lead_refuses_changes() -> None:
    assert error_of(follower(), adding()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_of(follower(), removing(2)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    "request_",
    [
        adding(voter=ReplicaKey(BrokerId(4))),
        adding(voter=ReplicaKey(BrokerId(-1), key_of(4).directory_id)),
        adding(endpoints=()),
        adding(endpoints=MORE_ENDPOINTS[1:]),
    ],
    ids=["no directory", "no id", "no endpoint", "not the listener of controllers"],
)
def test_an_incomplete_addition_is_invalid(request_: AddVoterRequest) -> None:
    assert error_of(with_observer(), request_) is ErrorCode.INVALID_REQUEST


def test_a_second_change_waits_for_the_first() -> None:
    node = with_observer()
    node.ask(adding())

    assert error_of(node, adding(5)) is ErrorCode.REQUEST_TIMED_OUT
    assert error_of(node, removing(3)) is ErrorCode.REQUEST_TIMED_OUT


def test_a_change_waits_until_the_last_voter_set_is_committed() -> None:
    node = added(acks_commit=False)

    assert error_of(node, removing(3)) is ErrorCode.REQUEST_TIMED_OUT


def test_a_change_waits_until_the_leader_knows_what_is_committed() -> None:
    assert error_of(leader(), adding()) is ErrorCode.REQUEST_TIMED_OUT


def test_a_quorum_at_level_0_has_a_fixed_set() -> None:
    node = established(log=static_log())

    assert error_of(node, adding()) is ErrorCode.UNSUPPORTED_VERSION
    assert error_of(node, removing(3)) is ErrorCode.UNSUPPORTED_VERSION


def test_an_id_is_a_voter_once_whatever_its_directory() -> None:
    other = adding(voter=ReplicaKey(BrokerId(3), key_of(9).directory_id))

    assert error_of(with_observer(), other) is ErrorCode.DUPLICATE_VOTER


def test_an_addition_that_comes_again_is_done_if_it_is_a_voter_by_this_key() -> None:
    node = with_observer()

    node.ask(adding(voter=key_of(3), is_again=True))
    assert told(node) == [(ErrorCode.NONE, "")]
    other = adding(voter=ReplicaKey(BrokerId(3), key_of(9).directory_id), is_again=True)
    assert error_of(node, other) is ErrorCode.DUPLICATE_VOTER


def test_a_removal_that_comes_again_is_done_if_it_is_no_voter() -> None:
    node = with_observer()

    node.ask(RemoveVoterRequest(voter=key_of(4), is_again=True))
    assert told(node) == [(ErrorCode.NONE, "")]
    assert node.core.voters.ids == (1, 2, 3)


def test_a_new_voter_that_cannot_be_reached_is_no_voter() -> None:
    node = with_observer()
    node.ask(adding())

    node.fail(node.newest(VersionsRequest))

    assert told(node)[0][0] is ErrorCode.REQUEST_TIMED_OUT
    assert node.core.voters.ids == (1, 2, 3)
    assert error_of(node, adding()) is None, "nothing is pending"


def test_a_new_voter_that_does_not_answer_is_no_voter() -> None:
    node = with_observer()
    node.ask(adding())

    for _ in range(4):
        node.wait(SETTINGS.request_timeout_ms // 4)
        fetches(node, 2)
    node.wait(1)

    assert error_of(node, adding()) is None, "nothing is pending"
    assert node.core.voters.ids == (1, 2, 3)


def test_a_new_voter_without_the_finalized_level_is_invalid() -> None:
    node = with_observer()
    node.ask(adding())

    versions_told(node, ONLY_LEVEL_0)

    assert told(node)[0][0] is ErrorCode.INVALID_REQUEST
    assert node.core.voters.ids == (1, 2, 3)


def test_a_new_voter_must_follow_the_leader() -> None:
    node = established()
    node.ask(adding())

    versions_told(node)

    assert told(node)[0][0] is ErrorCode.REQUEST_TIMED_OUT


def test_a_new_voter_must_have_followed_within_two_fetch_timeouts() -> None:
    node = with_observer()
    for _ in range(9):
        node.wait(SETTINGS.fetch_timeout_ms // 4)
        fetches(node, 2)
    node.ask(adding())

    versions_told(node)

    assert told(node)[0][0] is ErrorCode.REQUEST_TIMED_OUT


def test_a_new_voter_must_lack_few_records() -> None:
    node = with_observer()
    node.propose(LAG_MAX + 1)
    node.disk_works()
    node.ask(adding())

    versions_told(node)

    error, message = told(node)[0]
    assert error is ErrorCode.REQUEST_TIMED_OUT
    assert f"{LAG_MAX + 1} records behind" in message
    assert node.core.voters.ids == (1, 2, 3)


def test_a_change_whose_time_is_over_stays_in_the_log_and_blocks_the_next_one() -> None:
    node = added(timeout_ms=500)
    node.wait(500)

    assert told(node)[0][0] is ErrorCode.REQUEST_TIMED_OUT
    assert node.core.voters.ids == (1, 2, 3, 4)
    assert error_of(node, removing(4)) is ErrorCode.REQUEST_TIMED_OUT


def test_a_leader_that_resigns_answers_the_pending_change() -> None:
    node = added()

    node.handle(ResignRequested())

    assert told(node)[0][0] is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_sole_voter_has_time_to_hear_the_second_one() -> None:
    node = LoneNode(voters=[1])
    node.disk_works()
    node.wait(60_000)
    node.ask(fetch_request(2, at(1, 1), epoch=1, max_wait_ms=0))
    node.ask(adding(2))
    versions_told(node)

    node.wait(SETTINGS.check_quorum_ms - 1)

    assert isinstance(node.state, Leader)


# RemoveRaftVoter.


def followed(**more: object) -> LoneNode:
    """A leader that voters 2 and 3 follow."""
    node = established(**more)
    fetches(node, 2)
    fetches(node, 3)
    return node


def test_a_removal_is_answered_when_the_others_have_it() -> None:
    node = followed()
    assert error_of(node, removing(3)) is None
    assert appended_voters(node) == [1, 2]
    node.disk_works()

    fetches(node, 2)

    assert told(node) == [(ErrorCode.NONE, "")]


def test_a_removed_voter_does_not_count() -> None:
    node = followed()
    node.ask(removing(3))
    node.disk_works()

    fetches(node, 3)

    assert told(node) == []


def test_only_a_voter_is_removed_and_only_by_its_directory() -> None:
    node = followed()
    other = RemoveVoterRequest(voter=ReplicaKey(BrokerId(3), key_of(9).directory_id))

    assert error_of(node, removing(4)) is ErrorCode.VOTER_NOT_FOUND
    assert error_of(node, other) is ErrorCode.VOTER_NOT_FOUND
    unknown = RemoveVoterRequest(voter=ReplicaKey(BrokerId(3), UNKNOWN_DIRECTORY))
    assert error_of(node, unknown) is ErrorCode.INVALID_REQUEST


def test_the_last_voter_is_not_removed() -> None:
    node = LoneNode(voters=[1])
    node.disk_works()

    assert error_of(node, removing(1)) is ErrorCode.VOTER_NOT_FOUND


def test_a_dead_voter_is_removed_by_the_others() -> None:
    node = established()
    fetches(node, 2)

    assert error_of(node, removing(3)) is None


def test_nobody_is_removed_whom_the_others_need() -> None:
    node = established()
    fetches(node, 2)

    assert error_of(node, removing(2)) is ErrorCode.REQUEST_TIMED_OUT
    assert node.core.voters.ids == (1, 2, 3)


def test_a_leader_that_removes_itself_counts_no_more_and_resigns_after_the_commit() -> None:
    node = followed()
    assert error_of(node, removing(1)) is None
    node.disk_works()
    fetches(node, 2)
    assert isinstance(node.state, Leader)
    assert told(node) == []

    fetches(node, 3)

    assert told(node) == [(ErrorCode.NONE, "")]
    assert isinstance(node.state, Resigned)


def test_a_leader_that_removed_itself_does_not_stand_again() -> None:
    node = followed()
    node.ask(removing(1))
    node.disk_works()
    fetches(node, 2)
    fetches(node, 3)

    node.wait(10 * SETTINGS.election_timeout_ms)

    assert node.state.epoch == 2
    assert node.core.leader_id is None
    assert node.state.deadline_ms is None  # type: ignore[union-attr]


def test_a_leader_of_two_resigns_so_that_the_other_one_removes_it() -> None:
    node = established(voters=[1, 2])

    assert error_of(node, removing(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    assert isinstance(node.state, Resigned)
    assert node.core.voters.ids == (1, 2)


def test_a_leader_that_the_others_cannot_replace_stays() -> None:
    node = established()
    fetches(node, 2)

    assert error_of(node, removing(1)) is ErrorCode.REQUEST_TIMED_OUT
    assert isinstance(node.state, Leader)


def test_one_of_four_resigns_first_where_the_others_need_its_vote() -> None:
    node = established(voters=[1, 2, 3, 4])
    for _ in range(2):
        fetches(node, 2)
        fetches(node, 3)

    assert error_of(node, removing(1)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_starts_again_as_no_voter_leaves_its_epoch() -> None:
    led = ElectionState(epoch=LeaderEpoch(5), leader_id=BrokerId(1), voted=None)

    node = LoneNode(voters=(2, 3), stored=led)

    assert isinstance(node.state, Resigned)
    assert node.core.leader_id is None
    node.wait_until_due()
    assert node.state.epoch == 6


def test_a_leader_that_is_asked_to_resign_may_be_told_its_successor() -> None:
    for successor in (2, 3):
        node = followed()

        node.handle(ResignRequested(BrokerId(successor)))

        (sent, _) = node.asked(EndQuorumEpochRequest)
        assert isinstance(sent.request, EndQuorumEpochRequest)
        assert sent.request.successors[0] == key_of(successor)


# UpdateRaftVoter.


def test_a_voter_is_asked_at_its_new_address_before_it_is_appended() -> None:
    node = followed()

    assert error_of(node, updating(moved())) is None

    assert node.newest(VersionsRequest).endpoints == MORE_ENDPOINTS
    versions_told(node)
    assert told(node) == [(ErrorCode.NONE, "")]
    assert node.core.voters.endpoints(2) == MORE_ENDPOINTS


def test_a_voter_that_cannot_be_reached_keeps_its_old_address() -> None:
    node = followed()
    node.ask(updating(moved()))

    node.fail(node.newest(VersionsRequest))

    assert told(node)[0][0] is ErrorCode.REQUEST_TIMED_OUT
    assert node.core.voters.endpoints(2) == endpoints_of(2)


def test_a_voter_as_it_is_known_needs_no_record() -> None:
    node = followed()

    assert error_of(node, updating(voter(2))) is ErrorCode.NONE
    assert not node.done(AppendControl)


def test_an_update_names_the_epoch_of_its_leader() -> None:
    node = followed()

    assert error_of(node, updating(moved(), 0)) is ErrorCode.FENCED_LEADER_EPOCH
    assert error_of(node, updating(moved(), 2)) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_an_update_of_no_voter_is_refused() -> None:
    other = KRaftVoter(
        voter_id=2,
        voter_directory_id=key_of(9).directory_id,
        endpoints=endpoints_of(2),
        k_raft_version_feature=VERSIONS,
    )

    assert error_of(followed(), updating(voter(4))) is ErrorCode.VOTER_NOT_FOUND
    assert error_of(followed(), updating(other)) is ErrorCode.VOTER_NOT_FOUND


def test_an_update_without_the_finalized_level_is_invalid() -> None:
    old = KRaftVoter(
        voter_id=2,
        voter_directory_id=key_of(2).directory_id,
        endpoints=endpoints_of(2),
        k_raft_version_feature=ONLY_LEVEL_0,
    )

    assert error_of(followed(), updating(old)) is ErrorCode.INVALID_REQUEST


def test_a_leader_updates_itself_with_the_first_record_of_its_epoch() -> None:
    log = log_of()
    log.voters = History(VoterSet.of([moved(1), voter(2), voter(3)]))

    node = leader(log=log)

    first = node.done(AppendControl)[0].records
    assert [type(each) for each in first] == [
        LeaderChangeMessage,
        KRaftVersionRecord,
        KRaftVotersRecord,
    ]
    assert node.core.voters.endpoints(1) == endpoints_of(1)


# kraft.version 0 to 1.


def at_level_0(*heard: int) -> LoneNode:
    """A leader of a static set that some voters have told of themselves."""
    node = established(log=static_log())
    for each in heard:
        assert error_of(node, updating(voter(each))) is ErrorCode.NONE
        assert not node.done(AppendControl)
    return node


def test_a_static_quorum_is_raised_when_all_voters_have_told_their_directories() -> None:
    node = at_level_0(2, 3)

    assert error_of(node, RaiseKRaftVersionRequest(level=1)) is None

    (control,) = node.done(AppendControl)
    assert control.records == (
        KRaftVersionRecord(k_raft_version=1),
        KRaftVotersRecord(voters=tuple(map(voter, (1, 2, 3)))),
    )
    node.disk_works()
    fetches(node, 2)
    assert told(node) == [(ErrorCode.NONE, "")]


def test_a_static_quorum_with_a_voter_that_was_never_heard_is_not_raised() -> None:
    node = at_level_0(2)

    assert error_of(node, RaiseKRaftVersionRequest(level=1)) is ErrorCode.INVALID_UPDATE_VERSION
    assert not node.done(AppendControl)


def test_a_level_that_a_voter_does_not_support_is_not_raised() -> None:
    node = at_level_0(3)
    old = KRaftVoter(
        voter_id=2,
        voter_directory_id=key_of(2).directory_id,
        endpoints=endpoints_of(2),
        k_raft_version_feature=ONLY_LEVEL_0,
    )
    node.ask(updating(old))

    assert error_of(node, RaiseKRaftVersionRequest(level=1)) is ErrorCode.INVALID_UPDATE_VERSION


def test_a_validation_raises_nothing() -> None:
    node = at_level_0(2, 3)

    request = RaiseKRaftVersionRequest(level=1, validates_only=True)

    assert error_of(node, request) is ErrorCode.NONE
    assert not node.done(AppendControl)


def test_a_level_is_never_lowered_and_may_be_asked_for_twice() -> None:
    node = followed()

    lower, same = RaiseKRaftVersionRequest(level=0), RaiseKRaftVersionRequest(level=1)
    assert error_of(node, lower) is ErrorCode.INVALID_UPDATE_VERSION
    assert error_of(node, same) is ErrorCode.NONE
    assert not node.done(AppendControl)
