"""The table of single failures says the same as the question for one failure."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from analytics.ask.cluster import Cluster
from analytics.ask.partition_states import PartitionAt
from analytics.ask.what_if import as_model
from analytics.rare.kind_losses import LOSSES
from analytics.rare.min_insync import AssumedMinIsr
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.features import ELR_VERSION
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary.ids import BrokerId, DirectoryId
from jbodlab.what_if.cluster import Cluster as Model
from jbodlab.what_if.failure import Failure, effects
from jbodlab.what_if.loss import UNCLEAN_ELECTION
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.image_tables import ids, state_row
from tests.analytics.small_logs import TOPIC, Row, answered

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


def what_if(
    cluster: Cluster, states: list[PartitionAt], *, has_elr: bool, unclean: bool
) -> list[Row]:
    """Return the table, also of directories that brokers do not have online."""
    rows: list[Row] = [
        {"topic": at.topic, "topic_id": at.topic, "partition": at.partition} | state_row(at.state)
        for at in states
    ]
    places = {
        place
        for each in rows
        for place in zip(each["replicas"], each["directories"], strict=True)  # type: ignore[call-overload]
    }
    brokers: list[Row] = [
        {
            "broker": each,
            "fenced": known is None,
            "in_controlled_shutdown": False,
            "log_dirs": ids(known.directories if known else ()),
        }
        for each in map(BrokerId, BROKERS)
        for known in [cluster.brokers.get(each)]
    ]
    named = {"resource_type": "topic", "resource_name": "orders", "name": UNCLEAN_ELECTION}
    return answered(
        "what_if",
        partitions=rows,
        topics=[{"topic_id": "orders", "min_insync_replicas": MIN_ISR}],
        brokers=brokers,
        log_dirs=[
            {"broker": broker, "directory": directory, "state": "online"}
            for broker, directory in places
        ],
        configs=[{**named, "value": str(unclean).lower()}],
        features=[{"feature": ELR_VERSION, "level": int(has_elr)}],
    )


def asked(cluster: Model, failure: Failure) -> dict[str, int]:
    """Return what the question for one failure counts."""
    loss, found = effects(cluster, failure)
    return {
        "replicas": len(found),
        "only_copies": sum(len(each.partition.replicas) == 1 for each in found),
        "leaderless": loss.leaderless,
        "under_min_isr": loss.below_min_isr,
        "leaders_moved": loss.leaders_moved,
        "unclean": loss.unclean,
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
    cluster = Cluster(
        brokers=brokers,
        assumed_min_isr=AssumedMinIsr(MIN_ISR),
        has_elr=has_elr,
        settings={("orders", UNCLEAN_ELECTION): str(unclean).lower()},
    )
    states = [
        PartitionAt(topic="orders", topic_id="", partition=n, state=random_partition(rng))
        for n in range(200)
    ]
    found = what_if(cluster, states, has_elr=has_elr, unclean=unclean)

    names = ("replicas", *LOSSES)
    model = as_model(cluster, states)
    numbers = {one.directory_id: number for number, one in enumerate(model.directories)}
    for one in found:
        if one["directory"] is not None and one["directory"] not in numbers:
            continue  # No broker has it online, so it cannot fail.
        failure = Failure(
            broker=int(str(one["broker"])),
            directory=None if one["directory"] is None else numbers[str(one["directory"])],
            name="",
        )
        assert {name: one[name] for name in names} == asked(model, failure)
    assert {one["scope"] for one in found} == {"broker", "directory"}
    assert all(any(one[name] for one in found) for name in ("leaderless", "leaders_moved"))
