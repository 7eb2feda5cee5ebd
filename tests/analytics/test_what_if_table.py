"""What the table of single failures says is what the question for one failure answers."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from analytics.ask.cluster import Cluster
from analytics.ask.partition_states import PartitionAt
from analytics.ask.what_if import Failure, effects
from analytics.derive.loss import ELR_FEATURE, UNCLEAN_ELECTION
from analytics.derive.what_if import LOSSES, Alive, losses
from analytics.fold.min_insync import AssumedMinIsr
from analytics.tables import catalog as t
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import BrokerId, DirectoryId
from jbodlab.image.broker_registration import BrokerRegistration
from jbodlab.image.partition_registration import PartitionRegistration
from jbodlab.image.settings_image import ConfigsImage, FeaturesImage
from jbodlab.records.config_records import TOPIC_RESOURCE
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import TOPIC

BROKERS = range(1, 6)
MIN_ISR = 2


def directory(broker: int, number: int) -> DirectoryId:
    return DirectoryId(uid(broker * 10 + number))


def random_partition(rng: random.Random) -> PartitionRegistration:
    replicas = tuple(BrokerId(each) for each in rng.sample(BROKERS, rng.randint(1, 4)))
    in_sync = tuple(rng.sample(replicas, rng.randint(0, len(replicas))))
    outside = [each for each in replicas if each not in in_sync]
    moving = rng.random() < 0.2 and len(replicas) > 1
    odd = [directory_ids.UNASSIGNED, directory_ids.LOST]
    record = partition_record(
        TOPIC,
        replicas=replicas,
        isr=in_sync,
        leader=rng.choice([-1, *replicas]),
        directories=[
            rng.choice(odd) if rng.random() < 0.1 else directory(each, rng.randint(0, 1))
            for each in replicas
        ],
    )
    record = replace(
        record,
        eligible_leader_replicas=tuple(each for each in outside if rng.random() < 0.3) or None,
        last_known_elr=tuple(each for each in outside if rng.random() < 0.2) or None,
        removing_replicas=record.replicas[:1] if moving else (),
        adding_replicas=record.replicas[1:2] if moving else (),
    )
    return PartitionRegistration.from_record(record)


def row(state: PartitionRegistration, *, unclean: bool) -> dict[str, object]:
    return {
        "leader": state.leader,
        "replicas": state.replicas,
        "directories": [kafka_uuid.to_text(each) for each in state.directories],
        "isr": state.isr,
        "eligible_leader_replicas": state.elr,
        "last_known_elr": state.last_known_elr,
        "adding_replicas": state.adding_replicas,
        "removing_replicas": state.removing_replicas,
        "min_isr": MIN_ISR,
        "unclean": unclean,
    }


def table(rows: list[dict[str, object]]) -> pa.Table:
    lists = t.PARTITIONS.schema
    own = [lists.field(name) for name in rows[0] if name not in ("min_isr", "unclean")]
    schema = pa.schema([*own, pa.field("min_isr", pa.int32()), pa.field("unclean", pa.bool_())])
    return pa.Table.from_pylist(rows, schema)


def asked(cluster: Cluster, states: list[PartitionAt], failure: Failure) -> dict[str, int]:
    """Return what the question for one failure counts."""
    found = effects(cluster, states, failure)
    moved = [each for each in found if each.loses_leader and not each.is_leaderless]
    return {
        "replicas": len(found),
        "only_copies": sum(len(each.partition.state.replicas) == 1 for each in found),
        "leaderless": sum(each.is_leaderless for each in found),
        "under_min_isr": sum(each.falls_below_min_isr for each in found),
        "leaders_moved": len(moved),
        "unclean": sum(each.outcome.is_unclean for each in moved),
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("unclean", [False, True])
def test_single_failures_lose_what_the_question_for_one_of_them_answers(
    seed: int, unclean: bool
) -> None:
    rng = random.Random(seed)
    brokers = {
        BrokerId(each): BrokerRegistration.from_record(
            register(each, [directory(each, number) for number in range(rng.randint(1, 2))]), 0
        )
        for each in BROKERS
        if each != 5
    }
    has_elr = bool(seed % 2)
    value = {UNCLEAN_ELECTION: str(unclean).lower()}
    cluster = Cluster(
        brokers=brokers,
        assumed_min_isr=AssumedMinIsr(MIN_ISR),
        features=FeaturesImage(levels={ELR_FEATURE: int(has_elr)}),
        configs=ConfigsImage(resources={(TOPIC_RESOURCE, "orders"): value}),
    )
    states = [
        PartitionAt(topic="orders", topic_id="", partition=n, state=random_partition(rng))
        for n in range(200)
    ]
    alive = Alive(
        directories={
            each: frozenset(map(kafka_uuid.to_text, broker.directories))
            for each, broker in brokers.items()
        },
        has_elr=has_elr,
    )

    found = losses(table([row(each.state, unclean=unclean) for each in states]), alive).to_pylist()

    names = ("replicas", *LOSSES)
    per_broker: dict[int, dict[str, int]] = {}
    for one in found:
        where = kafka_uuid.parse(one["directory"])
        failure = Failure(broker=BrokerId(one["broker"]), directory=DirectoryId(where))
        expected = asked(cluster, states, failure)
        assert {name: one[name] for name in names} == expected
        sums = per_broker.setdefault(one["broker"], dict.fromkeys(names, 0))
        for name in names:
            sums[name] += one[name]
    assert {broker: dict(sums) for broker, sums in per_broker.items()} == {
        broker: asked(cluster, states, Failure(broker=BrokerId(broker), directory=None))
        for broker in per_broker
    }
    assert all(sum(one[name] for one in found) for name in ("leaderless", "leaders_moved"))
