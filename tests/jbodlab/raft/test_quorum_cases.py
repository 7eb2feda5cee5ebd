"""Cases of quorums of three and five: a leader that dies, is cut off, hands over, comes back."""

from __future__ import annotations

import pytest

from jbodlab.raft.events import LeaderSuspected, ResignRequested
from jbodlab.raft.states import Follower, Leader, Resigned
from jbodlab.vocabulary.ids import Offset
from tests.jbodlab.raft.world import Node, World


def running(voters: int = 3, observers: int = 0) -> World:
    """A quorum that has a leader, and committed records."""
    world = World(voters, observers)
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
