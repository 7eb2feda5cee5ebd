"""One broker's registration and the changes to it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.records.cluster_records import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.errors import ReplayError
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId

TOP_BIT = DirectoryId(UUID(int=(1 << 127) + 1))
SMALL = DirectoryId(UUID(int=1 << 80))
LARGE = DirectoryId(UUID(int=1 << 90))

REGISTERED = BrokerRegistration(
    broker_id=BrokerId(1),
    epoch=BrokerEpoch(5),
    incarnation_id=UUID(int=77),
    directories=(SMALL, LARGE),
)


def change(
    *,
    epoch: int = 5,
    fenced: int = 0,
    shutdown: int = 0,
    log_dirs: tuple[DirectoryId, ...] = (),
    cordoned: tuple[DirectoryId, ...] | None = None,
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=BrokerId(1),
        broker_epoch=BrokerEpoch(epoch),
        fenced=fenced,
        in_controlled_shutdown=shutdown,
        log_dirs=log_dirs,
        cordoned_log_dirs=cordoned,
    )


def test_directories_are_kept_in_the_order_of_ids_and_features_by_name() -> None:
    features = (BrokerFeature(name="b"), BrokerFeature(name="a"))
    record = RegisterBrokerRecord(
        broker_id=BrokerId(1), log_dirs=(LARGE, SMALL, TOP_BIT), features=features
    )

    registration = BrokerRegistration.from_record(record, 9)

    assert registration.directories == (TOP_BIT, SMALL, LARGE)
    assert registration.features == features[::-1]
    assert registration.record_offset == 9
    assert registration.fenced


def test_record_offset_does_not_take_part_in_equality() -> None:
    record = RegisterBrokerRecord(broker_id=BrokerId(1))

    assert BrokerRegistration.from_record(record, 1) == BrokerRegistration.from_record(record, 2)


def test_unfencing_makes_it_active() -> None:
    unfenced = REGISTERED.merge(change(fenced=UNFENCE))

    assert not REGISTERED.active
    assert unfenced == replace(REGISTERED, fenced=False)
    assert unfenced.active


def test_controlled_shutdown_ends_only_with_a_new_registration() -> None:
    leaving = REGISTERED.merge(change(fenced=UNFENCE)).merge(
        change(shutdown=ENTER_CONTROLLED_SHUTDOWN)
    )

    assert not leaving.fenced
    assert not leaving.active
    assert leaving.merge(change(fenced=FENCE)).in_controlled_shutdown
    assert leaving.merge(change(fenced=FENCE)).merge(change(fenced=UNFENCE)).in_controlled_shutdown


def test_directories_are_replaced_unless_empty() -> None:
    assert REGISTERED.merge(change(log_dirs=(LARGE,))).directories == (LARGE,)
    assert REGISTERED.merge(change(log_dirs=())).directories == (SMALL, LARGE)


def test_cordoned_directories_change_unless_null_and_empty_means_none() -> None:
    cordoned = REGISTERED.merge(change(cordoned=(LARGE, SMALL)))

    assert REGISTERED.cordoned_directories is None
    assert cordoned.cordoned_directories == (SMALL, LARGE)
    assert cordoned.merge(change(fenced=UNFENCE)).cordoned_directories == (SMALL, LARGE)
    assert cordoned.merge(change(cordoned=())).cordoned_directories == ()


@pytest.mark.parametrize(
    "record", [change(epoch=4), change(fenced=2), change(fenced=-2), change(shutdown=-1)]
)
def test_change_that_means_nothing_is_refused(record: BrokerRegistrationChangeRecord) -> None:
    with pytest.raises(ReplayError):
        REGISTERED.merge(record)


def test_directory_is_online_when_it_is_registered() -> None:
    assert REGISTERED.directory_is_online(SMALL)
    assert not REGISTERED.directory_is_online(TOP_BIT)
    assert not REGISTERED.directory_is_online(LOST)
    assert REGISTERED.directory_is_online(UNASSIGNED)
    assert REGISTERED.directory_is_online(MIGRATING)
    assert replace(REGISTERED, directories=()).directory_is_online(TOP_BIT)


def test_record_of_a_registration_establishes_it_again() -> None:
    registration = replace(REGISTERED, rack="r1", fenced=False, cordoned_directories=(SMALL,))

    assert BrokerRegistration.from_record(registration.to_record(), 3) == registration
