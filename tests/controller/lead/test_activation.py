from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from controller.lead.activation import activation_records, registration_records
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.image.settings_image import FeaturesImage
from jbodlab.metadata.records.cluster_records import BrokerEndpoint, RegisterControllerRecord
from jbodlab.metadata.records.config_records import (
    BROKER_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import BrokerId

BEGIN = BeginTransactionRecord(name="Bootstrap records")
ABORT = AbortTransactionRecord(reason="Controller failover")
END = EndTransactionRecord()


ELR = "eligible.leader.replicas.version"
MIN_ISR = ConfigRecord(
    resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value="2"
)


def level(number: int, name: str = "metadata.version") -> Record:
    return FeatureLevelRecord(name=name, feature_level=number)


def active(
    *bootstrap: Record, finalized: dict[str, int] | None = None, is_open: bool = False
) -> list[Record]:
    image = replace(EMPTY, features=FeaturesImage(levels=finalized or {}))
    records = activation_records(
        image,
        is_open,
        [VersionedRecord(record, 0) for record in bootstrap],
        {"min.insync.replicas": " 2 "},
    )
    return [record for record, _ in records]


def test_an_empty_log_begins_with_the_bootstrap_records_in_a_transaction() -> None:
    assert active(level(22)) == [BEGIN, level(22), END]


def test_without_bootstrap_records_a_cluster_begins_as_a_new_one() -> None:
    assert active() == [
        BEGIN,
        level(30),
        level(1, "group.version"),
        level(2, "transaction.version"),
        level(1, ELR),
        MIN_ISR,
        END,
    ]


def test_with_eligible_replicas_the_file_s_minimum_becomes_that_of_the_cluster() -> None:
    assert active(level(26), level(1, ELR)) == [BEGIN, level(26), level(1, ELR), MIN_ISR, END]
    assert active(level(26), level(0, ELR)) == [BEGIN, level(26), level(0, ELR), END]


def test_below_transactions_the_bootstrap_records_stand_alone() -> None:
    assert active(level(12)) == [level(12)]


def test_a_log_with_a_level_needs_nothing() -> None:
    assert active(level(22), finalized={"metadata.version": 30}) == []


def test_an_open_transaction_is_aborted_and_its_bootstrap_written_again() -> None:
    assert active(level(30), is_open=True) == [ABORT, BEGIN, level(30), END]
    assert active(level(30), finalized={"metadata.version": 30}, is_open=True) == [ABORT]


@pytest.mark.parametrize(
    "bootstrap",
    [
        (level(31),),
        (level(6),),
        (level(1, "group.version"),),
        (level(30), level(2, "group.version")),
        (level(30), level(1, "unheard.of.version")),
    ],
)
def test_bootstrap_records_with_unsupported_levels_are_refused(
    bootstrap: tuple[Record, ...],
) -> None:
    with pytest.raises(FormatError):
        active(*bootstrap)


KEPT = {"share.version": 1, "streams.version": 1}


def test_levels_that_only_permit_what_clients_may_ask_stay_as_kafka_has_them() -> None:
    kept = [level(number, name) for name, number in KEPT.items()]

    assert active(level(30), *kept) == [BEGIN, level(30), *kept, END]
    assert active(finalized={"metadata.version": 30, **KEPT}) == []


@pytest.mark.parametrize(("name", "number"), [("group.version", 1), ("transaction.version", 2)])
def test_groups_and_transactions_stay_as_they_are_finalized(name: str, number: int) -> None:
    finalized = level(number, name)

    assert active(level(30), finalized) == [BEGIN, level(30), finalized, END]
    assert active(finalized={"metadata.version": 24, name: number}) == []


@pytest.mark.parametrize(
    ("finalized", "remedy"),
    [
        ({"metadata.version": 33}, "cannot be lowered: reformat with --release-version 4.3-IV0"),
        ({"metadata.version": 31}, "kafka-features.sh downgrade --metadata 4.3-IV0"),
        ({"metadata.version": 99}, "reformat"),
        ({"metadata.version": 5}, "kafka-features.sh upgrade"),
        ({"metadata.version": 30, "new.version": 2}, "downgrade --feature new.version=0"),
    ],
)
def test_a_log_with_a_level_that_cannot_be_lowered_is_refused_with_what_to_do(
    finalized: dict[str, int], remedy: str
) -> None:
    with pytest.raises(FormatError, match=r"finalized level \d+ of feature \S+ is not") as refused:
        active(finalized=finalized)

    assert remedy in str(refused.value)


def test_a_controller_registers_from_its_level_on() -> None:
    listener = Endpoint(name="CONTROLLER", host="localhost", port=9093)

    (record,) = registration_records(15, BrokerId(100), UUID(int=1), (listener,))

    assert isinstance(record.record, RegisterControllerRecord)
    assert record.record.controller_id == 100
    assert record.record.end_points == (
        BrokerEndpoint(name="CONTROLLER", host="localhost", port=9093),
    )
    assert registration_records(14, BrokerId(100), UUID(int=1), (listener,)) == []
