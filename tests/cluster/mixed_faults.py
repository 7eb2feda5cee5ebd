"""Random faults of the controllers of a mixed quorum, one after the other."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

from lab.cluster.node import Node
from tests.cluster.mixed_quorum import DEADLINE_S, MixedQuorum

LOOK_EVERY = 10
"""Faults between two looks whether all logs are equal."""
PAUSE_S_MAX = 3.0
FREEZE_S_MAX = 6.0


class MixedFaults:
    """Faults by number: each depends on the seed and its number alone, and on what runs.

    Args:
        quorum: All of it runs.
        seed: Of the choices.
        say: Takes a line for each fault.
    """

    def __init__(self, quorum: MixedQuorum, seed: int, say: Callable[[str], None]) -> None:
        self._quorum = quorum
        self._seed = seed
        self._say = say
        self._chance = random.Random()

    def run(self, first: int, count: int) -> None:
        """Make faults, and compare all logs at last and now and then."""
        for number in range(first, first + count):
            self._chance = random.Random(f"{self._seed}/{number}")
            began = time.monotonic()
            told = self._fault()
            leader = self._quorum.change_until_acknowledged()
            ended = [node for node in self._quorum.controllers if not node.is_running]
            assert not ended, f"after fault {number} ({told}) these have ended: {ended}"
            self._say(
                f"fault {number}: {told}; led by {self._name(leader)} "
                f"after {time.monotonic() - began:.1f} s"
            )
            if (number + 1) % LOOK_EVERY == 0 or number + 1 == first + count:
                self._look()

    def _fault(self) -> str:
        nodes = self._victims()
        names = ", ".join(map(self._name, nodes))
        kind = self._chance.choice(("kill", "kill", "stop", "stop", "freeze"))
        if kind == "freeze":
            pause_s = self._chance.uniform(0.2, FREEZE_S_MAX)
            for node in nodes:
                node.freeze()
            self._change(pause_s)
            for node in nodes:
                node.thaw()
            return f"froze {names} for {pause_s:.1f} s"
        for node in nodes:
            if kind == "kill":
                node.kill()
            else:
                code = node.stop(DEADLINE_S)
                # One of Kafka's that is stopped while it starts may fail over files it has closed.
                is_clean = code in (0, -signal.SIGTERM) or self._quorum.is_kafka(node)
                assert is_clean, f"{node} ended with {code}"
        pause_s = self._chance.uniform(0, PAUSE_S_MAX)
        self._change(pause_s)
        self._pass_on(nodes)
        self._quorum.start(*nodes)
        return f"{kind} of {names}, started as {', '.join(map(self._name, nodes))}"

    def _victims(self) -> list[Node]:
        """Return the leader, a follower, two or all."""
        leader = self._quorum.wait_leader()
        rest = [node for node in self._quorum.controllers if node is not leader]
        self._chance.shuffle(rest)
        return self._chance.choice(
            ([leader], [leader], rest[:1], rest[:1], [leader, rest[0]], rest, [leader, *rest])
        )

    def _pass_on(self, nodes: list[Node]) -> None:
        """Have some of the directories started by the other program; both are in the quorum."""
        quorum = self._quorum
        for node in nodes:
            if self._chance.random() < 0.5:
                others = {quorum.is_kafka(each) for each in quorum.controllers if each is not node}
                wanted = not quorum.is_kafka(node)
                if others != {wanted}:
                    quorum.hand_to(node, kafka=wanted)

    def _change(self, pause_s: float) -> None:
        end = time.monotonic() + pause_s
        while time.monotonic() < end:
            if leader := self._quorum.leader():
                self._quorum.try_change(leader)
            time.sleep(0.05)

    def _look(self) -> None:
        self._quorum.freeze_equal()
        self._quorum.check_equal()
        self._say(f"equal up to {self._quorum.ends()}")
        nodes = self._quorum.controllers
        self._pass_on(nodes)
        self._quorum.start()
        self._quorum.change_until_acknowledged()

    def _name(self, node: Node) -> str:
        return f"{node.id} ({'Kafka' if self._quorum.is_kafka(node) else 'ours'})"
