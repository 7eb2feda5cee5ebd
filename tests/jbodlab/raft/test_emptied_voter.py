"""A voter whose disk came back empty: it neither votes nor counts until it has caught up."""

from __future__ import annotations

import msgspec
import pytest

from jbodlab.raft.events import LeaderSuspected, RequestFailed
from jbodlab.raft.instructions import (
    AdvanceHighWatermark,
    TellWhole,
    TellWithheld,
    WriteQuorumState,
)
from jbodlab.raft.messages import (
    FetchRequest,
    QuorumFetchAnswer,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.states import Follower, Leader, Prospective, Resigned, Unattached
from jbodlab.raft.voters import NOBODY
from jbodlab.vocabulary.error_code import ErrorCode
from tests.jbodlab.raft.lone_node import (
    SETTINGS,
    LoneNode,
    at,
    batch,
    begin_request,
    established,
    fetch_request,
    follower,
    log_of,
    vote_request,
)
from tests.jbodlab.raft.test_quorum_cases import leader_of, others, propose, running
from tests.jbodlab.raft.world import Node, World, key_of


def emptied() -> LoneNode:
    return LoneNode(stored=None)


def whole(node: LoneNode | Node) -> bool:
    assert node.core is not None
    return node.core.is_whole


def caught_up() -> LoneNode:
    """A follower of node 2 that was emptied, and has all that the leader has."""
    node = follower(stored=None)
    node.answer(FetchRequest, epoch=5, leader=2, batches=(batch(0, 3, 5),), high_watermark=3)
    node.disk_works()
    node.answer(FetchRequest, epoch=5, leader=2, high_watermark=3)
    return node


def granted(node: LoneNode, request: VoteRequest) -> bool:
    answer = node.ask(request)
    assert isinstance(answer, VoteResponse)
    assert answer.error is ErrorCode.NONE
    return answer.is_granted


@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_a_voter_without_quorum_state_gives_no_vote(is_pre_vote: bool) -> None:
    node = emptied()
    assert node.done(TellWithheld) == [TellWithheld(None)]

    assert not granted(node, vote_request(epoch=7, end=at(9, 6), pre=is_pre_vote))
    assert node.done(TellWithheld) == [TellWithheld(key_of(2))]
    # It is told once in an epoch.
    assert not granted(node, vote_request(epoch=7, end=at(9, 6), pre=is_pre_vote))
    assert not node.done(TellWithheld)


def test_a_voter_without_quorum_state_stands_for_no_election() -> None:
    node = emptied()
    assert isinstance(node.state, Prospective)

    for each in (2, 3):
        node.answer(VoteRequest, each, is_granted=True)

    assert isinstance(node.state, Unattached)
    with_a_log = LoneNode(stored=None, log=log_of((4, 0), end=3))
    assert not with_a_log.asked(VoteRequest)
    with_a_log.wait(10 * SETTINGS.fetch_timeout_ms)
    assert isinstance(with_a_log.state, Unattached)
    lost = follower(stored=None)
    lost.wait(10 * SETTINGS.fetch_timeout_ms)
    assert isinstance(lost.state, Follower)


def test_a_voter_that_knows_no_pre_vote_elects_no_emptied_one() -> None:
    node = emptied()

    node.handle(
        RequestFailed(node.newest(VoteRequest, 2).request_id, ErrorCode.UNSUPPORTED_VERSION)
    )

    assert isinstance(node.state, Prospective)


def test_an_emptied_voter_fetches_as_nobody_until_a_later_record_is_committed() -> None:
    node = caught_up()
    assert node.newest(FetchRequest).request.replica == NOBODY  # type: ignore[union-attr]
    assert not granted(node, vote_request(epoch=5, end=at(9, 5), pre=True))

    node.answer(FetchRequest, epoch=5, leader=2, batches=(batch(3, 5, 5),), high_watermark=3)
    node.disk_works()
    assert not whole(node)
    node.answer(FetchRequest, epoch=5, leader=2, high_watermark=5)

    assert node.done(TellWhole)
    assert node.done(WriteQuorumState)[0].state.leader_id == 2
    assert node.asked(FetchRequest)[0].request.replica == key_of(1)  # type: ignore[union-attr]


def test_a_high_watermark_that_an_emptied_voter_only_reaches_does_not_make_it_whole() -> None:
    # Records below it may have been committed with what this voter has acknowledged and lost.
    node = follower(stored=None)
    node.answer(FetchRequest, epoch=5, leader=2, batches=(batch(0, 3, 5),), high_watermark=9)
    node.disk_works()
    node.answer(FetchRequest, epoch=5, leader=2, batches=(batch(3, 9, 5),), high_watermark=9)
    node.disk_works()
    node.answer(FetchRequest, epoch=5, leader=2, high_watermark=9)

    assert not whole(node)


def test_an_emptied_voter_begins_anew_with_each_leader() -> None:
    node = caught_up()

    node.ask(begin_request(3, epoch=6))
    node.answer(FetchRequest, epoch=6, leader=3, batches=(batch(3, 5, 6),), high_watermark=5)

    assert not whole(node)


def test_an_emptied_voter_that_starts_again_is_not_whole() -> None:
    node = caught_up()
    assert node.stored is None

    again = LoneNode(stored=node.stored, log=log_of((5, 0), end=3))

    assert not whole(again)


def test_an_emptied_voter_that_led_does_not_lead_again_in_that_epoch() -> None:
    node = emptied()

    node.answer(VoteRequest, 2, epoch=5, leader=1)

    assert node.state.epoch == 5
    assert isinstance(node.state, Unattached)
    assert node.core.leader_id is None


def test_voters_that_are_all_empty_begin_the_quorum() -> None:
    node = emptied()

    assert not granted(node, vote_request(2, epoch=0, pre=True))
    assert not granted(node, vote_request(2, epoch=0, pre=True))
    assert not whole(node)
    granted(node, vote_request(3, epoch=0, pre=True))

    assert whole(node)
    assert node.stored is not None
    node.wait_until_due()
    node.wait_until_due()
    assert node.asked(VoteRequest)


def test_a_sole_voter_and_one_that_was_formatted_with_the_voters_are_whole() -> None:
    assert isinstance(LoneNode(stored=None, voters=(1,)).state, Leader)
    log = log_of()
    log.voters.add(-1, log.voters.last)
    assert whole(LoneNode(stored=None, log=log))


def test_a_fetch_of_nobody_neither_counts_nor_keeps_the_leader() -> None:
    leader = established()
    leader.propose()
    leader.disk_works()
    nobody = msgspec.structs.replace(fetch_request(3, at(2, 1), epoch=1), replica=NOBODY)

    leader.ask(nobody)

    assert not leader.done(AdvanceHighWatermark)
    assert isinstance(leader.state, Leader)
    assert NOBODY not in leader.state.progress.replicas
    leader.propose()
    leader.disk_works()
    answer = leader.ask(nobody)
    assert isinstance(answer, QuorumFetchAnswer)
    assert answer.read is not None
    leader.now_ms += SETTINGS.check_quorum_ms - 1
    leader.ask(nobody)
    leader.wait(1)
    assert isinstance(leader.state, Resigned)


def leads(node: Node) -> bool:
    return node.core is not None and isinstance(node.core.state, Leader)


def split(world: World) -> tuple[Node, Node, Node]:
    """The leader, the voter that will be emptied, and the other one."""
    leader = leader_of(world)
    voter, other = others(world, leader)
    return leader, voter, other


def test_an_emptied_voter_elects_no_voter_that_lacks_committed_records() -> None:
    world = running()
    leader, voter, other = split(world)
    world.part(other.number, leader.number)
    world.part(other.number, voter.number)
    propose(world, leader)
    world.run(100)
    assert leader.high_watermark > other.ordered.end
    leader.stop(has_power=True)

    world.play("empty", world.voters.ids.index(voter.number))
    world.cuts.clear()
    world.run(20_000)

    assert not leads(voter)
    assert not leads(other)
    leader.start()
    world.settle()


def test_an_emptied_voter_commits_nothing_with_a_leader_that_was_replaced() -> None:
    world = running()
    former, *rest = split(world)
    for each in rest:
        world.part(former.number, each.number)
        each.handle(LeaderSuspected())
    world.run(500)
    other, voter = sorted(rest, key=lambda node: not leads(node))
    assert leads(other)
    propose(world, other)
    world.run(100)
    committed = former.high_watermark

    world.cuts.clear()
    other.stop(has_power=True)
    world.play("empty", world.voters.ids.index(voter.number))
    assert leads(former)
    propose(world, former)
    world.run(1_000)

    assert leads(former)
    assert voter.ordered.end == former.ordered.end
    assert former.high_watermark == committed
    assert not whole(voter)
    world.settle()


def test_an_emptied_voter_counts_again_when_it_has_caught_up() -> None:
    world = running()
    leader, voter, other = split(world)

    world.play("empty", world.voters.ids.index(voter.number))
    world.run(3_000)
    assert not whole(voter)
    propose(world, leader)
    world.run(1_500)

    assert whole(voter)
    assert voter.high_watermark == leader.high_watermark
    other.stop(has_power=True)
    propose(world, leader)
    world.run(1_500)
    assert leader.high_watermark == leader.ordered.end == voter.ordered.end
