"""Cordoned directories: how they are recorded, and that nothing new is placed beside them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from controller.decide.partitions.added_partitions import create_partitions
from controller.decide.partitions.topics import create_topics
from controller.decide.settings.configs import incremental_alter_configs
from jbodlab.controller_api.requests import (
    ConfigChange,
    ConfigResource,
    CreatedTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    IncrementalAlterConfigsRequest,
    NewTopic,
    PartitionsToAdd,
)
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController, brokers, directories, named_uuid


def cluster(level: int = 30) -> PureController:
    controller = PureController(level=level)
    for broker, dirs in [(1, "A1,A2"), (2, "B1,B2"), (3, "C1,C2")]:
        controller.add_broker(broker, dirs)
    return controller


def cordon(controller: PureController, broker: int, names: str) -> None:
    controller.heartbeat(broker, cordoned_log_dirs=directories(names))


def place(controller: PureController, **fields: Any) -> CreatedTopic:
    decide = partial(create_topics, randomness=controller.random, new_id=lambda: named_uuid("auto"))
    topic = NewTopic(name="auto", num_partitions=9, **fields)
    return controller.ask(decide, CreateTopicsRequest(topics=(topic,))).topics[0]


def known(controller: PureController, broker: int) -> Any:
    return controller.state.image.cluster.brokers[BrokerId(broker)].cordoned_directories


def test_the_first_word_of_a_registration_is_written_and_then_changes_only() -> None:
    controller = cluster()
    assert known(controller, 1) is None
    for names, written in [("", 1), ("", 0), ("A2", 1), ("A2", 0), ("A2,A1", 1), ("", 1)]:
        cordon(controller, 1, names)
        assert len(controller.records) == written
        if written:
            (record, version) = controller.records[0]
            assert isinstance(record, BrokerRegistrationChangeRecord)
            assert version == 3
        assert known(controller, 1) == tuple(sorted(directories(names)))
    controller.heartbeat(1)
    assert (controller.records, known(controller, 1)) == ((), ())


def test_below_its_level_nothing_is_written_and_the_setting_is_refused() -> None:
    controller = cluster(level=29)
    cordon(controller, 1, "A1")
    assert controller.records == ()
    change = ConfigChange(name="cordoned.log.dirs", value="*")
    request = IncrementalAlterConfigsRequest(
        resources=(ConfigResource(resource_type=4, resource_name="1", configs=(change,)),)
    )
    (answer,) = controller.ask(incremental_alter_configs, request).responses
    assert answer.error_code == 40
    assert "cordoned.log.dirs" in answer.error_message
    assert "30" in answer.error_message


def test_a_restart_opens_no_cordoned_directory() -> None:
    controller = cluster()
    cordon(controller, 1, "A1,A2")
    controller.advance(60_000)
    controller.register(1, "A1,A2")
    (record,) = [each for each in controller.written() if isinstance(each, RegisterBrokerRecord)]
    assert record.cordoned_log_dirs == directories("A1,A2")
    # One that was never cordoned says nothing, as with Kafka.
    controller.register(2, "B1,B2")
    assert known(controller, 2) is None


@pytest.mark.parametrize("names", ["A1", "A2"])
def test_a_broker_with_one_open_directory_takes_replicas(names: str) -> None:
    controller = cluster()
    cordon(controller, 1, names)
    assert place(controller, replication_factor=3).error_code == 0


def test_placement_leaves_out_brokers_without_an_open_directory() -> None:
    controller = cluster()
    cordon(controller, 1, "A1,A2")
    assert place(controller, replication_factor=2).error_code == 0
    replicas = {
        broker
        for partition in controller.state.image.topics.by_name["auto"].partitions.values()
        for broker in partition.replicas
    }
    assert replicas == {2, 3}
    grow = CreatePartitionsRequest(topics=(PartitionsToAdd(name="auto", count=20),))
    decide = partial(create_partitions, randomness=controller.random)
    assert controller.ask(decide, grow).results[0].error_code == 0
    partitions = controller.state.image.topics.by_name["auto"].partitions
    assert len(partitions) == 20
    assert all(1 not in partition.replicas for partition in partitions.values())


def test_only_online_directories_count() -> None:
    controller = cluster()
    cordon(controller, 1, "A1")
    controller.heartbeat(1, offline_log_dirs="A2", cordoned_log_dirs=directories("A1"))
    answer = place(controller, replication_factor=3)
    assert answer.error_code == 38
    assert "only 2 broker(s) are registered or some brokers have all" in answer.error_message


def test_what_somebody_chose_is_refused_as_well() -> None:
    controller = cluster()
    controller.create("foo", (1, 2))
    cordon(controller, 1, "A1,A2")
    answer = controller.create("bar", (2, 1)).topics[0]
    assert answer.error_code == 39
    assert "broker 1, but all of its log directories are cordoned" in answer.error_message
    grow = CreatePartitionsRequest(
        topics=(PartitionsToAdd(name="foo", count=2, assignments=(brokers(1, 2),)),)
    )
    decide = partial(create_partitions, randomness=controller.random)
    assert controller.ask(decide, grow).results[0].error_code == 39
