"""Cases of quorums of three and five: a leader that dies, is cut off, hands over, comes back."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from jbodlab.raft.events import LeaderSuspected, ResignRequested
from jbodlab.raft.instructions import ElectionState
from jbodlab.raft.messages import AddVoterRequest, RemoveVoterRequest, VoterChangeRequest
from jbodlab.raft.settings import RaftSettings
from jbodlab.raft.states import Follower, Leader, Resigned
from jbodlab.raft.voters import VoterSet
from jbodlab.vocabulary.ids import LeaderEpoch, Offset
from tests.jbodlab.raft.world import Files, Node, World, key_of, voter


def running(voters: int = 3, observers: int = 0, settings: RaftSettings = World.settings) -> World:
    """A quorum that has a leader, and committed records."""
    world = World(voters, observers, settings)
    world.run(5_000)
    world.play("propose", 1)
    world.run(100)
    return world


def leader_of(world: World) -> Node:
    newest = max(
        (node for node in world.nodes.values() if node.core is not None),
        key=lambda node: (isinstance(node.core.state, Leader), node.core.state.epoch),  # type: ignore[union-attr]
    )
    assert newest.core is not None
    assert isinstance(newest.core.state, Leader)
    return newest


def leader_of_epoch(world: World, epoch: int) -> Node:
    return world.nodes[world.leaders[epoch]]


def others(world: World, node: Node) -> list[Node]:
    return [each for each in world.nodes.values() if each is not node]


def epoch_of(node: Node) -> int:
    assert node.core is not None
    return node.core.state.epoch


def kill(world: World, node: Node, *, has_power: bool = True) -> None:
    node.stop(has_power=has_power)


def propose(world: World, node: Node) -> None:
    before = [each for each in world.nodes.values() if each.core is not None]
    leaders = [each for each in before if isinstance(each.core.state, Leader)]  # type: ignore[union-attr]
    world.play("propose", leaders.index(node))


@pytest.mark.parametrize("voters", [1, 2, 3, 5])
def test_a_first_start_elects_one_leader_and_all_have_its_records(voters: int) -> None:
    world = running(voters)

    leader = leader_of(world)

    assert leader.high_watermark == leader.ordered.end > 1
    assert {node.high_watermark for node in world.nodes.values()} == {leader.high_watermark}
    assert len(world.leaders) <= 3


def test_a_leader_of_two_is_elected_before_the_third_starts() -> None:
    world = World(3)
    world.nodes[3].stop(has_power=True)

    world.run(5_000)
    leader = leader_of(world)
    world.nodes[3].start()
    world.run(1_000)

    assert leader_of(world) is leader
    assert world.nodes[3].high_watermark == leader.high_watermark


@pytest.mark.parametrize("voters", [3, 5])
def test_a_killed_leader_is_replaced_within_a_second_when_it_is_suspected(voters: int) -> None:
    world = running(voters)
    former = leader_of(world)

    kill(world, former)
    for node in others(world, former):
        node.handle(LeaderSuspected())
    world.run(1_000)

    leader = leader_of(world)
    assert leader is not former
    assert epoch_of(leader) == max(world.leaders)
    assert leader.high_watermark > former.high_watermark


def test_a_killed_leader_is_replaced_by_the_fetch_timer_when_nobody_is_told() -> None:
    world = running()
    former = leader_of(world)

    kill(world, former)
    world.run(8_000)

    assert leader_of(world) is not former


@pytest.mark.parametrize("voters", [3, 5])
def test_the_first_successor_of_a_leader_that_resigns_wins_in_its_first_round(voters: int) -> None:
    world = running(voters)
    former = leader_of(world)
    epoch = epoch_of(former)

    former.handle(ResignRequested())
    world.run(200)

    assert epoch_of(leader_of(world)) == epoch + 1


def test_followers_that_suspect_their_leader_at_the_same_instant_split_no_vote() -> None:
    split = 0
    for seed in range(100):
        world = running()
        world.run(10 * seed)
        former = leader_of(world)
        epoch = epoch_of(former)

        kill(world, former)
        for node in others(world, former):
            node.handle(LeaderSuspected())
        world.run(1_000)

        split += epoch_of(leader_of(world)) != epoch + 1
    assert split <= 5


def test_a_split_vote_is_decided_in_the_second_round_and_own_votes_of_the_first_one_stand() -> None:
    world = running(settings=RaftSettings(suspect_stagger_ms=0))
    former = leader_of(world)
    epoch = LeaderEpoch(epoch_of(former) + 1)
    candidates = others(world, former)

    kill(world, former)
    for node in candidates:
        node.handle(LeaderSuspected())
    # Both ask in the same instant, and neither hears of the other before it has its own vote.
    world.run(250)
    assert [node.stored for node in candidates] == [
        ElectionState(epoch=epoch, voted=node.key) for node in candidates
    ]
    assert epoch not in world.leaders
    for node in candidates:
        node.stop(has_power=False)
        node.start()
    assert [world.votes[node.key, epoch] for node in candidates] == [
        node.key for node in candidates
    ]
    world.run(5_000)

    assert epoch not in world.leaders
    assert epoch_of(leader_of(world)) == epoch + 1


@pytest.mark.parametrize("voters", [3, 5])
def test_the_second_successor_is_elected_where_the_first_one_is_killed(voters: int) -> None:
    def resigned() -> World:
        world = running(voters)
        leader_of(world).handle(ResignRequested())
        return world

    world = resigned()
    world.run(200)
    first = leader_of(world).number
    world = resigned()
    former = leader_of_epoch(world, max(world.leaders))

    kill(world, world.nodes[first])
    world.run(1_500)

    second = leader_of(world)
    assert second.number not in (first, former.number)
    assert epoch_of(second) == epoch_of(former)


def test_a_follower_that_was_cut_off_comes_back_without_an_election() -> None:
    world = running()
    leader = leader_of(world)
    lost = others(world, leader)[0]
    epoch = epoch_of(leader)

    for node in others(world, lost):
        world.part(lost.number, node.number)
    world.run(60_000)
    world.cuts.clear()
    world.run(8_000)

    assert leader_of(world) is leader
    assert {epoch_of(node) for node in world.nodes.values()} == {epoch}
    assert lost.core is not None
    assert isinstance(lost.core.state, Follower)


def test_a_follower_that_hears_no_answers_asks_and_is_refused_and_its_leader_stays() -> None:
    world = running()
    leader = leader_of(world)
    deaf = others(world, leader)[0]
    epoch = epoch_of(leader)

    world.part(leader.number, deaf.number, both_ways=False)
    world.run(30_000)

    assert leader_of(world) is leader
    assert {epoch_of(node) for node in world.nodes.values()} == {epoch}


def test_a_leader_that_is_cut_off_resigns_and_commits_nothing_more() -> None:
    world = running()
    former = leader_of(world)
    before = former.high_watermark

    for node in others(world, former):
        world.part(former.number, node.number)
    propose(world, former)
    world.run(3_001)

    assert former.core is not None
    assert isinstance(former.core.state, Resigned)
    assert former.high_watermark == before
    world.run(10_000)
    assert leader_of(world) is not former


def test_records_that_only_a_cut_off_leader_has_are_cut_when_it_comes_back() -> None:
    world = running()
    former = leader_of(world)
    for node in others(world, former):
        world.part(former.number, node.number)
    propose(world, former)
    own_end = former.ordered.end
    world.run(12_000)
    leader = leader_of(world)
    propose(world, leader)

    world.cuts.clear()
    world.run(8_000)

    assert world.seen["truncation"] == 1
    assert former.ordered.chain == leader.ordered.chain
    assert former.high_watermark == leader.high_watermark >= own_end


def test_the_follower_with_the_longer_log_wins() -> None:
    world = running()
    leader = leader_of(world)
    behind, ahead = others(world, leader)
    world.part(leader.number, behind.number)
    world.part(ahead.number, behind.number)
    propose(world, leader)
    world.run(500)
    assert ahead.high_watermark > behind.high_watermark

    kill(world, leader)
    world.cuts.clear()
    behind.handle(LeaderSuspected())
    world.run(10_000)

    assert leader_of(world) is ahead


def test_five_voters_go_on_with_three_and_stop_with_two() -> None:
    world = running(5)
    leader = leader_of(world)
    rest = others(world, leader)

    for node in rest[:2]:
        kill(world, node)
    world.run(5_000)
    propose(world, leader_of(world))
    world.run(200)
    committed = leader_of(world).high_watermark
    assert committed == leader_of(world).ordered.end
    kill(world, rest[2])
    world.run(10_000)
    assert not any(
        isinstance(node.core.state, Leader) for node in world.nodes.values() if node.core
    )
    rest[2].start()
    world.run(10_000)

    assert leader_of(world).high_watermark > committed


def test_nothing_committed_is_lost_when_all_lose_their_power() -> None:
    world = running()
    for _ in range(5):
        propose(world, leader_of(world))
        world.run(50)
    committed = world.committed_end

    for node in world.nodes.values():
        node.stop(has_power=False)
    for node in world.nodes.values():
        node.start()
    world.run(10_000)

    leader = leader_of(world)
    assert leader.ordered.chain_at(committed) == world.committed_chain[committed]
    assert leader.high_watermark > committed


def test_a_node_that_restarts_leads_no_more_in_its_epoch() -> None:
    world = running()
    leader = leader_of(world)
    epoch = epoch_of(leader)

    kill(world, leader)
    leader.start()
    world.run(8_000)

    assert epoch_of(leader_of(world)) > epoch


def test_an_observer_follows_and_is_not_counted() -> None:
    world = running(3, observers=1)
    leader = leader_of(world)
    assert world.nodes[4].high_watermark == leader.high_watermark

    for number in (2, 3) if leader.number == 1 else tuple({1, 2, 3} - {leader.number}):
        kill(world, world.nodes[number])
    before = leader.high_watermark
    propose(world, leader)
    world.run(2_000)

    assert leader.high_watermark == before
    assert world.nodes[4].ordered.end == leader.ordered.end > Offset(before)


def ask(world: World, request: VoterChangeRequest) -> None:
    """Ask whoever leads for a change of the voters, beside a record."""
    leader = leader_of(world)
    propose(world, leader)
    world.ask(leader, request)


def voters_of(world: World) -> set[int]:
    leader = leader_of(world)
    assert leader.core is not None
    return set(leader.core.voters.ids)


def adding(number: int) -> AddVoterRequest:
    return AddVoterRequest(
        voter=key_of(number), endpoints=voter(number).endpoints, timeout_ms=5_000
    )


def removing(number: int) -> RemoveVoterRequest:
    return RemoveVoterRequest(voter=key_of(number))


def test_one_voter_becomes_three_five_three_and_one_again_one_key_at_a_time() -> None:
    world = running(1, observers=4)
    sets = [{1}]

    for request in [
        *map(adding, (2, 3, 4, 5)),
        # The leader of the first epoch goes, too: it resigns when that is committed.
        *map(removing, (1, 2, 3, 4)),
    ]:
        before = world.committed_end
        # A leader that is to go may resign first, and the next one is asked again.
        for _ in range(2):
            if voters_of(world) == sets[-1]:
                ask(world, request)
                world.run(3_000)
        sets.append(voters_of(world))
        leader = leader_of(world)
        assert leader.high_watermark == leader.ordered.end > before

    assert [len(each) for each in sets] == [1, 2, 3, 4, 5, 4, 3, 2, 1]
    assert all(len(one ^ other) == 1 for one, other in pairwise(sets))
    assert sets[-1] == {5}


def test_a_voter_that_only_a_killed_leader_has_added_is_none_and_may_be_added_again() -> None:
    world = running(3, observers=1)
    former = leader_of(world)
    world.run(5_000)
    ask(world, adding(4))
    # Its answers get to the new node, which tells what it supports; nobody has the record then.
    while former.core is not None and former.core.voters.ids != (1, 2, 3, 4):
        world.run(1)
    for node in others(world, former):
        world.part(former.number, node.number)

    kill(world, former)
    world.cuts.clear()
    world.messages.clear()
    world.run(8_000)
    second = leader_of(world)
    assert voters_of(world) == {1, 2, 3}
    former.start()
    world.run(3_000)

    assert former.ordered.chain == second.ordered.chain
    ask(world, adding(4))
    world.run(3_000)
    assert voters_of(world) == {1, 2, 3, 4}
    assert world.seen["change NONE"] == 1


def test_a_voter_whose_addition_was_committed_as_its_leader_died_stays() -> None:
    world = running(3, observers=1)
    former = leader_of(world)
    world.run(5_000)
    end = former.ordered.end
    ask(world, adding(4))
    while former.high_watermark < end + 2:
        world.run(1)

    kill(world, former)
    world.run(8_000)
    assert voters_of(world) == {1, 2, 3, 4}
    ask(world, adding(4))
    world.run(1_000)

    # Only a client that says that it asks again is told that it is done.
    assert world.seen["change DUPLICATE_VOTER"] == 1
    answered = world.seen["change NONE"]
    ask(world, msgspec.structs.replace(adding(4), is_again=True))
    assert world.seen["change NONE"] == answered + 1


def test_controllers_that_name_themselves_beside_a_living_cluster_begin_no_second_quorum() -> None:
    world = running(3, observers=4)
    ask(world, adding(7))
    world.run(3_000)
    leader, epoch = leader_of(world), max(world.leaders)
    own = VoterSet.of(map(voter, (4, 5, 6)))
    for number in (4, 5, 6):
        node = world.nodes[number]
        kill(world, node)
        node.written, node.stored, node.formatted_with = Files(), None, own
        node.start()

    world.run(20_000)

    assert leader_of(world) is leader
    assert max(world.leaders) == epoch
    for number in (4, 5, 6):
        node = world.nodes[number]
        assert node.ordered.chain == leader.ordered.chain
        assert node.core is not None
        assert node.core.voters.ids == (1, 2, 3, 7)
