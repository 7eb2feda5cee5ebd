"""Quorums of one to five nodes under any order of messages, crashes and losses of power.

`world` has the rules that are checked after each step. Longer runs: `python -m
tests.jbodlab.raft.test_random_quorums 1000 5000` plays 1,000 seeds of 5,000 steps each.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.jbodlab.raft.world import STEPS, WEIGHTS, World, play_seed

SIZES = ((3, 0), (5, 0), (3, 1), (2, 0), (4, 1), (1, 0))
"""Voters and observers."""

USUAL = [step for step in STEPS if WEIGHTS[step] >= 10]


class RandomQuorum(RuleBasedStateMachine):
    """Steps that hypothesis chooses, and shrinks when a rule breaks."""

    world: World

    @initialize(size=st.sampled_from(SIZES))
    def begin(self, size: tuple[int, int]) -> None:
        self.world = World(*size)

    @rule(step=st.sampled_from(USUAL), pick=st.integers(0, 10_000))
    def usual(self, step: str, pick: int) -> None:
        self.world.play(step, pick)

    @rule(step=st.sampled_from(sorted(STEPS)), pick=st.integers(0, 10_000))
    def any_step(self, step: str, pick: int) -> None:
        self.world.play(step, pick)

    @rule(duration_ms=st.integers(1, 3_000))
    def work(self, duration_ms: int) -> None:
        self.world.run(duration_ms)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.settle()


RandomQuorum.TestCase.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)
test_no_order_of_steps_breaks_a_rule = RandomQuorum.TestCase


@pytest.mark.parametrize("size", SIZES)
def test_no_seed_breaks_a_rule(size: tuple[int, int]) -> None:
    seen: Counter[str] = Counter()

    for seed in range(4, 16):
        seen += play_seed(seed, 2_500, voters=size[0], observers=size[1]).seen

    # The histories must have reached what they are there for.
    assert seen["commit"] > 50
    assert seen["leader"] > 20
    if size[0] > 2:
        assert seen["truncation"] > 1
        assert seen["snapshot installed"] + seen["vote granted"] > 20


def main(seeds: int, steps: int) -> None:
    """Play many seeds; prints what they have reached."""
    seen: Counter[str] = Counter()
    for seed in range(seeds):
        voters, observers = SIZES[seed % len(SIZES)]
        try:
            seen += play_seed(seed, steps, voters=voters, observers=observers).seen
        except AssertionError as error:
            print(f"seed {seed}: {error!r}")
    print(dict(seen))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
