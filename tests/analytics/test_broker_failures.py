from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.records.cluster_records import UnregisterBrokerRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import (
    TOPIC,
    Answered,
    Row,
    answered,
    at,
    broker_change,
    change,
    picked,
    rows_of,
)

DIRECTORIES = {broker: (uid(broker * 10),) for broker in (1, 2, 3)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]

# Offsets 0 to 2: the brokers; 3: the topic; 4, 5: its partitions, of which broker 1 leads both.
CLUSTER: list[Record] = [
    *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
    TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
    partition_record(TOPIC, 0, directories=FIRST),
    partition_record(TOPIC, 1, replicas=(1,), directories=FIRST[:1]),
]
LEFT = [change(0, isr=(2, 3), leader=2), change(1, leader=-1)]


def broker_failure_rows(
    names: Sequence[str], *batches: Sequence[Record]
) -> list[tuple[object, ...]]:
    return picked(rows_of("broker_failures", [CLUSTER, *batches]), *names)


BEGIN_AND_END = ("broker", "began_by", "detected_offset", "state", "closed_offset", "closed_by")
COURSE = ("partitions_touched", "leaders_moved", "leaders_lost", "leaders_still_lost")
WHOLE = ("full_isr_offset", "time_to_full_isr_ms")


def test_a_broker_has_failed_from_its_fencing_until_it_is_unfenced() -> None:
    fenced = [*LEFT, broker_change(1, fenced=1)]
    back = [broker_change(1, fenced=-1), change(1, leader=1)]
    whole = [change(0, isr=(1, 2, 3))]

    assert broker_failure_rows(BEGIN_AND_END, fenced) == [(1, "fenced", 8, "open", None, None)]
    assert broker_failure_rows(BEGIN_AND_END, fenced, back) == [
        (1, "fenced", 8, "closed", 9, "unfenced")
    ]
    assert broker_failure_rows(COURSE, fenced, back) == [(2, 1, 1, 0)]
    assert broker_failure_rows(COURSE, fenced) == [(2, 1, 1, 1)]
    assert broker_failure_rows(WHOLE, fenced, back) == [(None, None)]
    assert broker_failure_rows(WHOLE, fenced, back, whole) == [(11, 2000)]


COSTS = ("leaderless", "leaderless_ms", "longest_leaderless_ms", "still_short")


def test_outages_are_put_down_to_the_failure_in_which_they_began() -> None:
    fenced = [change(1, leader=-1), broker_change(1, fenced=1)]
    back = [broker_change(1, fenced=-1), change(1, leader=1)]
    nothing: list[Record] = [broker_change(3, fenced=1)]

    # The records of a failure stand before its own. Batches are a second apart.
    assert broker_failure_rows(COSTS, fenced, nothing, back, fenced, nothing) == [
        (1, 2000, 2000, 0),
        (0, None, None, 0),
        (1, 1000, 1000, 1),
    ]


def test_a_failed_directory_costs_what_it_held() -> None:
    other = [*DIRECTORIES[1], uid(19)]
    lost = [change(1, leader=-1), broker_change(1, 1, log_dirs=(DirectoryId(other[1]),))]
    again = [change(1, leader=1, isr=(1,))]
    batches = [[register(1, other, epoch=1)], lost, again, [broker_change(3, fenced=1)]]

    (row,) = rows_of("directory_failures", [CLUSTER, *batches])

    assert [row[name] for name in COSTS] == [1, 1000, 1000, 0]


def test_what_a_broker_takes_along_is_not_whole_before_it_is_back() -> None:
    # In a controlled shutdown the record of the broker stands before those of its partitions.
    leaving = [broker_change(1, in_controlled_shutdown=1), *LEFT]

    assert broker_failure_rows(BEGIN_AND_END, leaving) == [
        (1, "controlled_shutdown", 6, "open", None, None)
    ]
    assert broker_failure_rows((*COURSE, *WHOLE), leaving) == [(2, 1, 1, 1, None, None)]


def test_a_shutdown_a_fencing_and_a_new_registration_are_one_failure() -> None:
    leaving = [broker_change(1, in_controlled_shutdown=1), *LEFT]
    gone = [broker_change(1, fenced=1)]
    again = [replace(register(1, DIRECTORIES[1], epoch=9), fenced=True)]
    back = [broker_change(1, 9, fenced=-1)]

    assert broker_failure_rows(BEGIN_AND_END, leaving, gone, again, back) == [
        (1, "controlled_shutdown", 6, "closed", 11, "unfenced")
    ]


def test_a_broker_that_is_removed_has_failed_no_longer() -> None:
    removed = [
        *LEFT,
        UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0)),
    ]

    assert broker_failure_rows(BEGIN_AND_END, removed) == [
        (1, "unregistered", 8, "closed", 8, "unregistered")
    ]
    assert broker_failure_rows(BEGIN_AND_END, [broker_change(1, fenced=1)], removed) == [
        (1, "fenced", 6, "closed", 9, "unregistered")
    ]


def test_the_failure_of_a_directory_is_none_of_its_broker() -> None:
    failed = [change(0, isr=(2, 3), leader=2), broker_change(1, log_dirs=())]

    assert broker_failure_rows(BEGIN_AND_END, failed) == []


def one_session(state: str, start: int, **more: object) -> Row:
    return {
        "broker": 1,
        "state": state,
        "record_type": "FENCE_BROKER_RECORD",
        "valid_from_offset": start,
        "batch_base_offset": start,
        **more,
    }


def failures(*sessions: Row) -> list[tuple[object, ...]]:
    names = ("broker", "began_by", "detected_offset", "back_offset", "back_by")
    return picked(answered("failures", broker_sessions=sessions), *names)


def test_a_broker_that_starts_for_the_first_time_has_not_failed() -> None:
    fenced = one_session("fenced", 1, ended_by="unfenced")

    assert failures(fenced, one_session("unfenced", 2)) == []


def test_a_broker_that_a_snapshot_knows_as_fenced_has_failed() -> None:
    fenced = one_session("fenced", 7, record_type=SNAPSHOT_TYPE)

    assert failures(fenced) == [(1, "snapshot", 7, None, None)]


def test_a_broker_that_registers_after_its_removal_begins_anew() -> None:
    removed = one_session("fenced", 5, ended_by="unregistered", valid_to_offset=6)

    assert failures(
        one_session("unfenced", 1, ended_by="fenced"),
        removed,
        one_session("fenced", 8, ended_by="unfenced"),
        one_session("unfenced", 9),
        one_session("unfenced", 3, broker=2, ended_by="fenced"),
        one_session("fenced", 4, broker=2, ended_by="unfenced"),
        one_session("unfenced", 7, broker=2),
    ) == [(2, "fenced", 4, 7, "unfenced"), (1, "fenced", 5, 6, "unregistered")]


def test_between_two_controllers_nothing_was_written(made_of: Answered) -> None:
    epochs: list[Row] = [
        {"epoch": epoch, "controller": controller, "from_offset": start, "from_time": at(start)}
        for epoch, controller, start in ((1, 100, 0), (4, None, 20), (5, 101, 30))
    ]
    counts: list[Row] = [
        {"epoch": epoch, "type": kind, "last_offset": last, "last_time": at(last + 0.5)}
        for epoch, kind, last in (
            *((1, "TOPIC_RECORD", 12), (1, "NO_OP_RECORD", 19), (4, "NO_OP_RECORD", 25)),
        )
    ]
    found = made_of("controller_changes", controller_epochs=epochs, record_counts=counts)

    names = ("epoch", "controller", "previous_controller", "last_offset", "gap_ms")
    assert picked(found, *names) == [
        (4, None, 100, 19, 500),
        (5, 101, None, 25, 4500),
    ]
