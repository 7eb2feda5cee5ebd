"""Random schedules of clients that follow the protocol; what must hold is looked at each step."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from broker.groups.consumer.replay import group_of
from jbodlab.group_records.records import GroupRecord
from jbodlab.group_records.values import ConsumerGroupCurrentMemberAssignmentValue
from tests.broker.groups.bench import FakeTopics
from tests.broker.groups.consumer.clients import Client, check_group, check_replay
from tests.broker.groups.consumer.rig import GROUP, Rig

NAMES = ("t", "u", "v")


def check_clients(rig: Rig, clients: list[Client]) -> None:
    """I5: no two work on one partition. A removed member does not know of it until it asks."""
    group = group_of(rig.shard.tables.written, GROUP)
    members = group.members if group is not None else {}
    owned = Counter(p for client in clients if client.member_id in members for p in client.owned)
    assert not owned or max(owned.values()) == 1


@pytest.mark.parametrize("seed", range(40))
def test_random_schedule_keeps_the_invariants(seed: int) -> None:
    random = Random(seed)
    topics = FakeTopics(t=5, u=3)
    rig = Rig(
        topics,
        consumer_assignment_interval_ms=random.choice([0, 1_000]),
        consumer_assignors=random.choice([("uniform", "range"), ("range",)]),
    )
    clients: list[Client] = []
    epochs: dict[str, int] = {}
    for step in range(150):
        choice = random.random()
        if choice < 0.08 and len(clients) < 6:
            instance_id = random.choice([None, None, "i", "j"])
            if instance_id not in {c.instance_id for c in clients} - {None}:
                wanted = tuple(n for n in NAMES if random.random() < 0.7) or ("t",)
                clients.append(Client(f"m{step}", instance_id, wanted))
        elif choice < 0.11 and clients:
            gone = clients.pop(random.randrange(len(clients)))
            if gone.epoch > 0:
                static = gone.instance_id is not None and random.random() < 0.7
                epoch = -2 if static else -1
                rig.beat(gone.member_id, epoch, instance_id=gone.instance_id)
        elif choice < 0.12 and clients:
            clients.pop(random.randrange(len(clients)))  # Dies without a word.
        elif choice < 0.14:
            rig.load()
        elif choice < 0.16:
            topics.grow("t", topics.partition_count("t") + 1)
        elif choice < 0.17:
            topics.delete("v") if "v" in topics.names() else topics.create("v", 2)
        elif choice < 0.2 and clients:
            client = random.choice(clients)
            client.topics, client.is_full = random.choice([("t",), ("t", "u"), NAMES]), True
        elif choice < 0.3:
            rig.advance(random.choice([100, 1_000, 5_000, 20_000]))
        elif clients:
            client = random.choice(clients)
            client.beat(rig, random) if random.random() < 0.6 else client.apply()
        check_group(rig, epochs)
        check_clients(rig, clients)
    check_replay(rig, random)
    _ends_with_everything_assigned(rig, clients, random)


def _ends_with_everything_assigned(rig: Rig, clients: list[Client], random: Random) -> None:
    """When nothing more happens, every wanted partition has a member within the time limits."""
    for _ in range(60):
        rig.advance(3_000)
        for client in clients:
            client.beat(rig, random)
            client.apply()
    group = group_of(rig.shard.tables.written, GROUP)
    members = [
        client for client in clients if group is not None and client.member_id in group.members
    ]
    assert len(members) == len(clients)
    wanted = {name for client in clients for name in client.topics}
    every = {
        p
        for name in wanted
        if name in rig.topics.names()
        for p in rig.ids(*range(rig.topics.partition_count(name)), topic=name)
    }
    assert {p for client in clients for p in client.owned} == every


def test_every_prefix_of_a_history_replays_to_the_group_of_then() -> None:
    rig = Rig(FakeTopics(t=4))
    states = []
    for number in range(3):
        rig.join(f"m{number}", instance_id=f"i{number}")
        states.append((len(rig.records), rig.group()))
        rig.settle()
        states.append((len(rig.records), rig.group()))
    rig.beat("m0", -1)
    states.append((len(rig.records), rig.group()))

    for length, expected in states:
        other = Rig(rig.topics)
        for offset, record in enumerate(rig.records[:length]):
            other.shard.replay(record, offset, offset + 1)
        assert other.group() == expected


def test_records_of_a_group_may_come_in_any_order() -> None:
    rig = Rig(FakeTopics(t=4))
    rig.join("a", instance_id="i")
    rig.join("b")
    rig.settle()
    newest = {record.key: record for record in rig.records}
    expected = rig.group()

    for seed in range(20):
        log = list(newest.values())
        Random(seed).shuffle(log)
        other = Rig(rig.topics)
        other.join("stranger", group_id="another")
        for offset, record in enumerate(log):
            other.shard.replay(record, offset + 100, offset + 101)
        assert other.group() == expected


def test_partition_of_two_members_belongs_to_the_later_one_until_the_other_lets_go() -> None:
    """KAFKA-19862: compaction may take away the record in between."""
    rig = Rig(FakeTopics(t=2))
    rig.join("a")
    rig.join("b")
    first = [record for record in rig.records if record.key.RECORD_TYPE != 8]
    had = next(r for r in rig.records if r.key.RECORD_TYPE == 8 and r.key.member_id == "a")  # type: ignore[union-attr]
    rig.settle()
    last = {r.key: r for r in rig.records if r.key.RECORD_TYPE == 8}
    a, b = sorted(last.values(), key=lambda r: r.key.member_id)  # type: ignore[union-attr]
    other = Rig(rig.topics)
    for offset, record in enumerate((*first, had)):
        other.shard.replay(record, offset, offset + 1)
    assert other.shard._consumer._index.get(GROUP) is not None  # type: ignore[attr-defined]

    for offset, record in enumerate((b, a), 100):
        other.shard.replay(record, offset, offset + 1)

    assert other.shard._consumer._index.get(GROUP) == rig.group()  # type: ignore[attr-defined]


def test_partitions_without_epochs_have_that_of_the_member() -> None:
    """A broker before KIP-1251 wrote none."""
    rig = Rig(FakeTopics(t=2))
    rig.join("a")
    has = next(record for record in rig.records if record.key.RECORD_TYPE == 8)
    value = has.value
    assert isinstance(value, ConsumerGroupCurrentMemberAssignmentValue)
    topics = tuple(replace(each, assignment_epochs=()) for each in value.assigned_partitions)
    older = replace(value, member_epoch=7, assigned_partitions=topics)

    rig.shard.replay(GroupRecord(has.key, older), 100, 101)

    assert rig.current("a").assigned == dict.fromkeys(rig.ids(0, 1), 7)
