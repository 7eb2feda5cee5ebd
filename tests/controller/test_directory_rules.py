"""Whether a replica's directory is online, which one a new replica gets, and who may lead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.decide.state import default_directory, leader_test
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId
from tests.builders import PureController, brokers, directories, directory

ONE = BrokerId(1)


def registered(dirs: str, level: int = 30) -> PureController:
    controller = PureController(level=level)
    controller.add_broker(1, dirs)
    return controller


@pytest.mark.parametrize(
    ("name", "online"),
    [
        ("UNASSIGNED", True),
        ("MIGRATING", True),
        ("LOST", False),
        ("A1", True),
        ("A2", False),
        ("X1", False),
    ],
)
def test_a_directory_is_online_if_the_registration_names_it(name: str, online: bool) -> None:
    controller = registered("A1,A2")
    controller.heartbeat(1, offline_log_dirs="A2")
    broker = controller.state.image.cluster.brokers[ONE]

    assert broker.directory_is_online(directory(name)) is online
    # Fencing is a test of its own.
    assert replace(broker, fenced=True).directory_is_online(directory(name)) is online
    may_lead = leader_test(controller.state.image.cluster)
    assert may_lead(ONE, directory(name)) is online
    assert not may_lead(BrokerId(2), directory(name))


def test_a_broker_from_before_directories_has_all_of_them_online_but_lost() -> None:
    controller = registered("A1", level=16)
    may_lead = leader_test(controller.state.image.cluster)

    assert may_lead(ONE, directory("X1"))
    assert not may_lead(ONE, directory("LOST"))


@pytest.mark.parametrize(
    ("dirs", "failed", "expected"),
    [
        ("A1", "", "A1"),
        ("A1,A2", "", "UNASSIGNED"),
        ("A1,A2", "A1", "A2"),
        ("A1,A2,A3", "A1", "UNASSIGNED"),
    ],
)
def test_a_new_replica_is_given_the_only_online_directory(
    dirs: str, failed: str, expected: str
) -> None:
    controller = registered(dirs)
    controller.heartbeat(1, offline_log_dirs=failed)
    controller.create("foo", (1,))

    assert controller.partition("foo").directories == directories(expected)


def test_a_new_replica_on_an_unknown_or_an_old_broker() -> None:
    old = registered("A1", level=16).state.image.cluster.brokers[ONE]

    assert default_directory(None, 30) == directory("UNASSIGNED")
    assert default_directory(old, 30) == directory("MIGRATING")
    assert default_directory(None, 16) == directory("MIGRATING")


def test_a_directory_belongs_to_one_broker_until_that_releases_it() -> None:
    controller = registered("A1,A2")
    assert controller.register(2, "A2").error_code == ErrorCode.INVALID_REGISTRATION
    controller.heartbeat(1, offline_log_dirs="A2")

    # A disk that was carried over to another machine.
    assert controller.register(2, "A2").error_code == ErrorCode.NONE
    controller.heartbeat(1, want_fence=True)
    assert controller.register(1, "A1,A2").error_code == ErrorCode.INVALID_REGISTRATION


def test_only_active_brokers_lead() -> None:
    controller = registered("A1")
    controller.add_broker(2, "B1")
    controller.create("foo", (1, 2))
    cluster = controller.state.image.cluster
    one = cluster.brokers[ONE]

    def test_with(**fields: bool) -> bool:
        changed = replace(cluster, brokers={**cluster.brokers, ONE: replace(one, **fields)})
        return leader_test(changed)(ONE, directory("A1"))

    assert test_with()
    assert not test_with(fenced=True)
    assert not test_with(in_controlled_shutdown=True)
    assert not leader_test(cluster, excluding=ONE)(ONE, directory("A1"))
    fenced = replace(cluster, brokers={ONE: replace(one, fenced=True)})
    assert leader_test(fenced, unfencing=ONE)(ONE, directory("A1"))
    assert not leader_test(fenced, unfencing=ONE)(ONE, directory("LOST"))


@pytest.mark.parametrize("level", [17, 18, 20, 22, 23, 26, 30])
def test_partitions_from_before_directories_get_them_one_by_one(level: int) -> None:
    controller = PureController(level=16)
    for broker, dirs in ((1, "A1,A2"), (2, "B1,B2")):
        controller.add_broker(broker, dirs)
    controller.create("foo", (1, 2))
    from jbodlab.metadata.records.config_records import FeatureLevelRecord

    controller.replay(FeatureLevelRecord(name="metadata.version", feature_level=level))
    # Nothing is offline before a broker has registered its directories.
    controller.heartbeat(1, offline_log_dirs="A1")
    assert controller.written() == []
    for broker, dirs in ((1, "A1,A2"), (2, "B1,B2")):
        known = controller.state.image.cluster.brokers[BrokerId(broker)]
        controller.register(broker, dirs, incarnation_id=known.incarnation_id)
    assert controller.partition("foo").directories == directories("MIGRATING,MIGRATING")

    controller.assign(2, foo="B2")
    assert controller.partition("foo").directories == directories("MIGRATING,B2")
    controller.heartbeat(2, offline_log_dirs="B2")

    assert controller.partition("foo").isr == brokers(1)
