"""Random schedules of classic members and members of the new protocol in one group."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from broker.coordination.core import Ticket
from broker.groups.classic.groups import ClassicGroups
from broker.groups.requests import LeaveGroup, LeavingMember, SyncedAssignment, SyncGroup
from broker.groups.responses import JoinGroupResponse, SyncGroupResponse
from broker.groups.state import GroupKind, kind_of
from jbodlab.group_records.consumer_protocol import ConsumerProtocolSubscription, decode
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import FakeTopics, assigned, assignment
from tests.broker.groups.consumer.clients import Client, check_group, check_replay
from tests.broker.groups.consumer.rig import GROUP, Rig, classic_join

PARTITIONS = 6


class ClassicClient:
    """A consumer of the classic protocol, eager or cooperative; topic `t` is all it wants."""

    def __init__(self, name: str, *, is_cooperative: bool) -> None:
        self.name = name
        self.is_cooperative = is_cooperative
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[int] = frozenset()
        self.waits_for: Ticket | None = None
        self.is_member = False

    def step(self, rig: Rig) -> None:
        if self.waits_for is not None:
            response = rig.answers.get(self.waits_for)
            if response is not None:
                self.waits_for = None
                self._take(rig, response)
        elif not self.is_member:
            self._join(rig)
        else:
            error = rig.classic_beat(self.member_id, self.generation)
            if error is not ErrorCode.NONE:
                self._start_again(error)

    def lose_connection(self) -> None:
        """A parked request gets no answer."""
        if self.waits_for is not None:
            self.waits_for, self.is_member = None, False

    def _start_again(self, error: ErrorCode) -> None:
        self.is_member = False
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.owned = frozenset()
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""

    def _join(self, rig: Rig) -> None:
        if not self.is_cooperative:
            self.owned = frozenset()
        owned = {"t": sorted(self.owned)} if self.owned else {}
        self.waits_for = rig.ask(classic_join(self.member_id, client_id=self.name, owned=owned))

    def _take(self, rig: Rig, response: Any) -> None:
        if isinstance(response, KafkaError):
            self._start_again(response.code)
        elif response.error_code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code is not ErrorCode.NONE:
            self._start_again(response.error_code)
        elif isinstance(response, JoinGroupResponse):
            self.member_id, self.generation = response.member_id, response.generation_id
            self.waits_for = rig.ask(
                SyncGroup(
                    group_id=GROUP,
                    member_id=self.member_id,
                    generation_id=self.generation,
                    protocol_type="consumer",
                    protocol_name="range",
                    assignments=self._assigned(response),
                )
            )
        else:
            assert isinstance(response, SyncGroupResponse)
            before = self.owned
            self.owned = frozenset(assigned(response.assignment))
            # A cooperative member that gave something up joins again, so that others can have it.
            self.is_member = not self.is_cooperative or before <= self.owned

    def _assigned(self, response: JoinGroupResponse) -> tuple[SyncedAssignment, ...]:
        """Return what the leader gives: nothing that another one owns."""
        ids = sorted(member.member_id for member in response.members)
        owners = {
            number: member.member_id
            for member in response.members
            for owned in decode(ConsumerProtocolSubscription, member.metadata)[0].owned_partitions
            for number in owned.partitions
        }
        shares: dict[str, list[int]] = {member_id: [] for member_id in ids}
        for number in range(PARTITIONS if ids else 0):
            member_id = ids[number % len(ids)]
            if owners.get(number, member_id) == member_id:
                shares[member_id].append(number)
        return tuple(
            SyncedAssignment(member_id, assignment(*numbers))
            for member_id, numbers in shares.items()
        )


def check_work(rig: Rig, new: list[Client], old: list[ClassicClient]) -> None:
    """I3, I5: of those that are members no two work on one partition."""
    if kind_of(rig.shard.tables.written, GROUP) is GroupKind.CONSUMER:
        members = set(rig.group().members)
    else:
        classic = ClassicGroups(rig.shard._state).find(GROUP)
        members = set() if classic is None else set(classic.members)
    owned = Counter(each.partition for c in new if c.member_id in members for each in c.owned)
    owned += Counter(number for c in old if c.member_id in members for number in c.owned)
    assert not owned or max(owned.values()) == 1, owned


@pytest.mark.parametrize("is_cooperative", [False, True], ids=["eager", "cooperative"])
@pytest.mark.parametrize("seed", range(25))
def test_random_migration_keeps_the_invariants(seed: int, is_cooperative: bool) -> None:
    random = Random(seed)
    rig = Rig(FakeTopics(t=PARTITIONS), consumer_assignment_interval_ms=random.choice([0, 1_000]))
    new: list[Client] = []
    old: list[ClassicClient] = []
    epochs: dict[str, int] = {}
    for step in range(250):
        choice = random.random()
        if choice < 0.04 and len(new) + len(old) < 5:
            if random.random() < 0.5:
                new.append(Client(f"m{step}", None, ("t",)))
            else:
                old.append(ClassicClient(f"k{step}", is_cooperative=is_cooperative))
        elif choice < 0.06 and new:
            gone = new.pop(random.randrange(len(new)))
            if gone.epoch > 0:
                rig.beat(gone.member_id, -1)
        elif choice < 0.08 and old:
            gone_classic = old.pop(random.randrange(len(old)))
            if gone_classic.member_id:
                leaving = (LeavingMember(gone_classic.member_id),)
                rig.answer(LeaveGroup(group_id=GROUP, members=leaving))
        elif choice < 0.1:
            rig.load()
            epochs.clear()
            for each in old:
                each.lose_connection()
        elif choice < 0.25:
            rig.advance(random.choice([100, 1_000, 3_000, 12_000]))
        elif new and (not old or random.random() < 0.5):
            client = random.choice(new)
            client.beat(rig, random) if random.random() < 0.6 else client.apply()
        elif old:
            random.choice(old).step(rig)
        check_group(rig, epochs)
        check_work(rig, new, old)
    if kind_of(rig.shard.tables.written, GROUP) is GroupKind.CONSUMER:
        check_replay(rig, random)
    for _ in range(80):
        rig.advance(2_000)
        for each in old:
            for _ in range(3):
                each.step(rig)
        for client in new:
            client.beat(rig, random)
            client.apply()
        check_work(rig, new, old)
    working = sum(len(client.owned) for client in new) + sum(len(each.owned) for each in old)
    assert working == (PARTITIONS if new or old else 0)
