"""Invariants that hold after every decision: random histories, one per seed."""

from __future__ import annotations

import random

import pytest

from controller.decide.brokers.brokers import fence_stale_broker
from controller.decide.brokers.registration import unregister_broker
from controller.decide.partitions.elections import (
    balance_preferred_leaders,
    elect_leaders,
    elect_unclean_leaders,
)
from jbodlab.controller_api.requests import ElectLeadersRequest, UnregisterBrokerRequest
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.frame import VersionedRecord, decode, encode
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId
from tests.builders import PureController, directories, named_uuid

STEPS = 500
TOPICS = ("a", "b", "c")
DIRS = {1: "A1 A2", 2: "B1 B2 B3", 3: "C1"}


class History:
    def __init__(self, seed: int, level: int) -> None:
        self.dice = random.Random(seed)
        self.controller = PureController(level=level)
        first = FeatureLevelRecord(name="metadata.version", feature_level=level)
        self.log = [VersionedRecord(first, 0)]
        self.failed: dict[int, set[str]] = {1: set(), 2: set(), 3: set()}
        self.incarnations: dict[int, int] = {}
        self.relieved = 0

    def step(self) -> None:
        broker = self.dice.choice([1, 2, 3])
        action = self.dice.choice(
            [self.register, self.assign, self.isr, self.create, self.other] + [self.heartbeat] * 8
        )
        self.controller.advance(self.dice.choice([1, 500, 4_000]))
        self.controller.records = ()
        action(broker)
        self.log += self.controller.records

    def register(self, broker: int) -> None:
        is_same = self.dice.random() < 0.3
        if not is_same:
            self.incarnations[broker] = self.dice.getrandbits(60) + 1
            names = DIRS[broker].split()
            self.failed[broker] = set(self.dice.sample(names, self.dice.randrange(len(names))))
        online = [name for name in DIRS[broker].split() if name not in self.failed[broker]]
        if online:
            known = self.controller.state.image.cluster.brokers.get(BrokerId(broker))
            self.controller.register(
                broker,
                " ".join(online),
                incarnation_id=named_uuid(str(self.incarnations.setdefault(broker, 1))),
                previous_broker_epoch=self.dice.choice([-1, known.epoch if known else -1]),
            )

    def heartbeat(self, broker: int) -> None:
        if self.dice.random() < 0.1:
            self.failed[broker].add(self.dice.choice(DIRS[broker].split()))
        self.controller.heartbeat(
            broker,
            want_fence=self.dice.random() < 0.1,
            want_shut_down=self.dice.random() < 0.1,
            offline_log_dirs=" ".join(sorted(self.failed[broker])),
            degraded_log_dirs=directories(self._some(broker)),
            full_log_dirs=directories(self._some(broker)),
            tolerated_log_dirs=directories(self._some(broker)),
        )
        self.check_relief(broker)

    def _some(self, broker: int) -> str:
        return " ".join(name for name in DIRS[broker].split() if self.dice.random() < 0.15)

    def check_relief(self, broker: int) -> None:
        """Nobody leads from a directory that should be left, if somebody else could."""
        state = self.controller.state
        degraded, brokers = state.degraded, state.image.cluster.brokers
        for topic in state.image.topics.by_id.values():
            for partition in topic.partitions.values():
                better = [
                    member
                    for member in partition.isr
                    if member in brokers
                    and brokers[member].active
                    and brokers[member].directory_is_online(partition.directory(member))
                    and not degraded.is_degraded(member, partition.directory(member))
                ]
                if partition.leader == broker and better:
                    directory = partition.directory(partition.leader)
                    assert not degraded.should_leave(partition.leader, directory)
                    self.relieved += 1
                if broker in partition.isr and better and partition.leader != broker:
                    assert not degraded.is_full(
                        BrokerId(broker), partition.directory(BrokerId(broker))
                    )

    def assign(self, broker: int) -> None:
        if BrokerId(broker) in self.controller.state.image.cluster.brokers:
            names = [*DIRS[broker].split(), "LOST", "X1"]
            self.controller.assign_partitions(
                broker,
                *(
                    (self.dice.choice(TOPICS), self.dice.randrange(3), self.dice.choice(names))
                    for _ in range(3)
                ),
            )

    def isr(self, broker: int) -> None:
        name = self.dice.choice(TOPICS)
        topic = self.controller.state.image.topics.by_name.get(name)
        if topic is None or BrokerId(broker) not in self.controller.state.image.cluster.brokers:
            return
        replicas = list(topic.partitions[0].replicas)
        members = tuple(self.dice.sample(replicas, self.dice.randint(1, len(replicas))))
        self.controller.alter_isr(broker, name, members)

    def create(self, broker: int) -> None:
        names = [n for n in TOPICS if n not in self.controller.state.image.topics.by_name]
        if names:
            order = self.dice.sample([1, 2, 3], 3)
            unclean = self.dice.choice(["true", "false"])
            self.controller.create(
                names[0],
                tuple(order),
                tuple(order),
                tuple(reversed(order)),
                configs=(("unclean.leader.election.enable", unclean),),
            )

    def other(self, broker: int) -> None:
        match self.dice.randrange(6):
            case 0:
                request = ElectLeadersRequest(election_type=0, topic_partitions=None)
                self.controller.ask(elect_leaders, request)
            case 1:
                self.controller.run(balance_preferred_leaders)
            case 2:
                self.controller.run(elect_unclean_leaders)
            case 3 if self.dice.random() < 0.3:
                self.controller.ask(
                    unregister_broker, UnregisterBrokerRequest(broker_id=BrokerId(broker))
                )
            case _:
                self.controller.advance(5_000)
                self.controller.run(fence_stale_broker)

    def check(self) -> None:
        brokers = self.controller.state.image.cluster.brokers
        for topic in self.controller.state.image.topics.by_id.values():
            for partition in topic.partitions.values():
                assert partition.isr
                assert set(partition.isr) <= set(partition.replicas)
                assert len(partition.directories) == len(partition.replicas)
                if partition.leader != NO_LEADER:
                    leader = brokers[partition.leader]
                    assert partition.leader in partition.isr
                    assert leader.active
                    assert leader.directory_is_online(partition.directory(partition.leader))
                if len(partition.isr) > 1:
                    for member in partition.isr:
                        assert brokers[member].active
                        assert brokers[member].directory_is_online(partition.directory(member))
        for registration in brokers.values():
            assert registration.directories

    def replayed(self) -> object:
        delta = MetadataDelta(EMPTY)
        for offset, (record, version) in enumerate(self.log):
            delta.replay(decode(encode(record, version)).record, offset)
        return delta.apply(len(self.log) - 1, 1, 0)


@pytest.mark.parametrize("level", [22, 30])
@pytest.mark.parametrize("seed", range(12))
def test_leaders_and_isr_members_are_always_usable(seed: int, level: int) -> None:
    history = History(seed, level)
    for _ in range(STEPS):
        history.step()
        history.check()

    assert history.replayed() == history.controller.state.image
    # The history was one worth checking.
    assert len(history.log) > 40
    assert history.relieved > 0
