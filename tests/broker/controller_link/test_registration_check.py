from __future__ import annotations

import logging

import pytest

from broker.controller_link.registration_check import RegistrationCheck
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId
from tests.broker.disks import directory_id
from tests.broker.replicas import Metadata, broker, directories_left, feature


class Follower:
    def __init__(self, directory_count: int = 2, epoch: int = 7) -> None:
        self.registered_again = 0
        self.online: tuple[DirectoryId, ...] = ()
        self.check = RegistrationCheck(
            BrokerId(1),
            broker_epoch=lambda: BrokerEpoch(epoch),
            directory_count=directory_count,
            online_directories=lambda: self.online,
            register_again=self._register_again,
        )
        self.apply = Metadata(self.check).apply

    def _register_again(self) -> None:
        self.registered_again += 1


def test_several_directories_below_their_metadata_version_are_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    follower = Follower()
    follower.apply(feature(16), broker(1))
    follower.apply(broker(2))
    errors = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "Multiple log directories (aka JBOD) are not supported" in errors[0]
    assert "3.7-IV1" in errors[0]
    assert follower.registered_again == 0


def test_one_directory_needs_no_metadata_version(caplog: pytest.LogCaptureFixture) -> None:
    Follower(directory_count=1).apply(feature(16), broker(1))
    assert not caplog.records


def test_broker_registers_again_when_the_metadata_version_allows_directories() -> None:
    follower = Follower()
    follower.apply(feature(16), broker(1))
    follower.apply(feature(17))
    follower.apply(broker(2, directory_id(20)))
    assert follower.registered_again == 1
    follower.apply(broker(1, directory_id(1), directory_id(2)))
    assert follower.registered_again == 1


def test_registration_of_an_earlier_process_is_none_of_ours() -> None:
    follower = Follower(epoch=8)
    follower.apply(feature(17), broker(1))
    assert follower.registered_again == 0


def test_directory_that_the_registration_lost_although_it_is_online_is_registered_again() -> None:
    one, two = directory_id(1), directory_id(2)
    follower = Follower()
    follower.online = (one, two)
    follower.apply(feature(), broker(1, one, two))
    assert follower.registered_again == 0

    # A heartbeat from before the revival came late.
    follower.apply(directories_left(1, one))
    assert follower.registered_again == 1
    # Only our own registration counts, and each change of it once.
    follower.apply(broker(2, directory_id(3)))
    assert follower.registered_again == 1
    follower.apply(broker(1, one, two))
    assert follower.registered_again == 1

    # A directory that failed here is rightly missing there.
    follower.online = (one,)
    follower.apply(directories_left(1, one))
    assert follower.registered_again == 1
