from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from analytics.tables.catalog import TABLES
from jbodlab.metadata.records.cluster_records import UnregisterBrokerRecord
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import partition_record, register, uid
from tests.analytics.small_logs import (
    TOPIC,
    broker_change,
    change,
    picked,
    rows_of,
    tables_of,
)

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2, 3, 4)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]
UNASSIGNED = directory_ids.UNASSIGNED

# Offsets 0 to 3: the brokers; 4: the topic; 5, 6: its partitions, of which broker 1 leads both.
CLUSTER: list[Record] = [
    *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3, 4)),
    TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
    partition_record(TOPIC, 0, directories=FIRST),
    partition_record(TOPIC, 1, replicas=(1,), directories=FIRST[:1]),
]


def text(directory: object) -> str:
    return kafka_uuid.to_text(directory)  # type: ignore[arg-type]


def derived(
    table: str, names: Sequence[str], *batches: Sequence[Record], step_s: float = 1.0
) -> list[tuple[object, ...]]:
    return picked(rows_of(table, [CLUSTER, *batches], step_s), *names)


def only(directory: object) -> tuple[DirectoryId, ...]:
    return (DirectoryId(directory),)  # type: ignore[arg-type]


FAILURE = (
    "broker",
    "directory",
    "detected_offset",
    "partitions_touched",
    "leaders_moved",
    "leaders_lost",
    "last_leader_offset",
    "time_to_last_leader_ms",
    "full_isr_offset",
    "time_to_full_isr_ms",
    "state",
    "closed_offset",
    "closed_by",
    "partitions",
)
FAILED = broker_change(1, log_dirs=only(DIRECTORIES[1][1]))
LOST = text(DIRECTORIES[1][0])
BOTH = ["orders-0", "orders-1"]


def test_a_failure_lasts_until_the_directory_is_registered_again() -> None:
    assert derived(
        "directory_failures",
        FAILURE,
        # Records of a failure's consequences stand before its own, in batches before it if they are
        # full.
        [change(0, isr=(2, 3), leader=2)],  # 7
        [change(1, leader=-1), FAILED],  # 8, 9
        [register(1, DIRECTORIES[1], epoch=10)],  # 10
        [change(1, leader=1)],  # 11
        [change(0, isr=(2, 3, 1))],  # 12
    ) == [
        (
            1,
            LOST,
            9,
            2,
            1,
            1,
            11,
            2000,
            12,
            3000,
            "closed",
            10,
            "registered",
            ["orders-0", "orders-1"],
        )
    ]


def test_a_failure_is_open_until_something_ends_it() -> None:
    assert derived("directory_failures", FAILURE, [change(0, isr=(2, 3), leader=2), FAILED]) == [
        (1, LOST, 8, 2, 1, 0, 7, None, None, None, "open", None, None, ["orders-0", "orders-1"])
    ]


LEADERS = (
    "leaders_moved",
    "leaders_lost",
    "leaders_still_lost",
    "last_leader_in_same_batch",
    "time_to_last_leader_ms",
)


def test_an_election_in_the_batch_of_the_failure_has_no_time_of_its_own() -> None:
    assert derived("directory_failures", LEADERS, [change(0, isr=(2, 3), leader=2), FAILED]) == [
        (1, 0, 0, True, None)
    ]


def test_leaders_that_never_come_back_are_counted_beside_those_that_do() -> None:
    both_lost = [change(0, leader=-1), change(1, leader=-1), FAILED]

    assert derived("directory_failures", LEADERS, both_lost) == [(0, 2, 2, None, None)]
    assert derived("directory_failures", LEADERS, both_lost, [change(1, leader=1)]) == [
        (0, 2, 1, False, 1000)
    ]
    gone = [RemoveTopicRecord(topic_id=TopicId(TOPIC))]
    assert derived("directory_failures", LEADERS, both_lost, gone) == [(0, 2, 0, None, None)]


def test_a_failure_ends_when_no_replica_is_left_in_the_directory() -> None:
    assert derived(
        "directory_failures",
        ("full_isr_offset", "state", "closed_offset", "closed_by"),
        [FAILED],  # 7
        [RemoveTopicRecord(topic_id=TopicId(TOPIC))],  # 8
        [UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0))],
    ) == [(7, "closed", 8, "replicas_gone")]


def test_a_directory_that_is_missing_at_a_registration_has_failed() -> None:
    assert derived(
        "directory_failures",
        ("directory", "detected_offset", "partitions_touched"),
        [register(1, DIRECTORIES[1][1:], epoch=7)],
    ) == [(LOST, 7, 2)]


def test_a_directory_that_held_nothing_fails_all_the_same() -> None:
    assert derived(
        "directory_failures",
        ("directory", "partitions_touched", "leaders_moved", "time_to_full_isr_ms", "partitions"),
        [broker_change(4, log_dirs=only(DIRECTORIES[4][0]))],
    ) == [(text(DIRECTORIES[4][1]), 0, 0, 0, [])]


MOVE = (
    "partition",
    "broker",
    "kind",
    "from_directory",
    "to_directory",
    "from_broker",
    "to_broker",
    "queued_offset",
    "assigned_offset",
    "ended_offset",
    "outcome",
    "duration_ms",
)


def test_a_move_within_a_broker_stays_or_is_reverted() -> None:
    here, there = (text(each) for each in DIRECTORIES[1])

    assert derived(
        "moves",
        MOVE,
        [change(0, directories=(DIRECTORIES[1][1], *FIRST[1:]))],  # 7
        [change(1, directories=(DIRECTORIES[1][1],))],  # 8
        [change(0, directories=FIRST)],  # 9
    ) == [
        (0, 1, "directory", here, there, 1, 1, None, 7, 9, "reverted", 2000),
        (0, 1, "directory", there, here, 1, 1, None, 9, 9, "swapped", None),
        (1, 1, "directory", here, there, 1, 1, None, 8, 8, "swapped", None),
    ]


def reassigning(to: int) -> Record:
    return change(
        0,
        replicas=(to, 1, 2, 3),
        adding_replicas=(to,),
        removing_replicas=(3,),
        directories=(UNASSIGNED, *FIRST),
    )


def test_a_reassignment_is_completed_by_the_state_without_it() -> None:
    target = DIRECTORIES[4][0]

    assert (
        derived(
            "moves",
            MOVE,
            [reassigning(4)],  # 7
            [change(0, directories=(target, *FIRST))],  # 8
            [
                change(
                    0,
                    replicas=(4, 1, 2),
                    isr=(4, 1, 2),
                    adding_replicas=(),
                    removing_replicas=(),
                    directories=(target, *FIRST[:2]),
                )
            ],  # 9
        )
        == [(0, 3, "reassignment", text(FIRST[2]), text(target), 3, 4, 7, 8, 9, "completed", 2000)]
    )


def test_a_reassignment_may_be_over_before_its_directory_is_named() -> None:
    target = DIRECTORIES[4][0]

    assert (
        derived(
            "moves",
            ("kind", "to_directory", "assigned_offset", "ended_offset", "outcome"),
            [reassigning(4)],  # 7
            [
                change(
                    0,
                    replicas=(4, 1, 2),
                    isr=(4, 1, 2),
                    adding_replicas=(),
                    removing_replicas=(),
                    directories=(UNASSIGNED, *FIRST[:2]),
                )
            ],  # 8
            [change(0, directories=(target, *FIRST[:2]))],  # 9
        )
        == [("reassignment", text(target), 9, 8, "completed")]
    )


def test_a_reassignment_that_is_taken_back_is_cancelled() -> None:
    back = change(
        0, replicas=(1, 2, 3), adding_replicas=(), removing_replicas=(), directories=FIRST
    )

    assert derived("moves", MOVE, [reassigning(4)], [back]) == [
        (0, 3, "reassignment", text(FIRST[2]), None, 3, 4, 7, None, 8, "cancelled", 1000)
    ]


def test_a_reassignment_at_the_end_of_the_log_is_running() -> None:
    assert derived("moves", ("outcome", "ended_offset"), [reassigning(4)]) == [("running", None)]


def test_lag_is_from_creation_to_the_first_directory() -> None:
    created = partition_record(TOPIC, 2, replicas=(1, 2), directories=(UNASSIGNED, UNASSIGNED))
    names = ("broker", "created_offset", "assigned_offset", "directory", "lag_ms")

    assert derived(
        "assignment_lag",
        names,
        [created],  # 7
        [change(2, isr=(1,))],
        [change(2, directories=(FIRST[0], UNASSIGNED))],  # 9
    ) == [(1, 7, 9, text(FIRST[0]), 2000), (2, 7, None, None, None)]


def test_flaps_add_up_and_count_to_the_end_of_what_holds() -> None:
    names = ("partition", "broker", "shrinks", "expands", "out_ms_total", "out_ms_max")

    assert derived(
        "isr_flaps",
        names,
        [change(0, isr=(1, 2))],
        [change(0, isr=(1, 2, 3))],
        [change(0, isr=(1, 2))],
        [change(0, isr=(1,))],
        [change(0, isr=(1, 3))],
        [change(0, leader=1)],
    ) == [(0, 2, 1, 0, 2000, 2000), (0, 3, 2, 2, 3000, 2000)]


def test_a_replica_is_out_no_longer_than_its_topic_lives() -> None:
    assert derived(
        "isr_flaps",
        ("broker", "out_ms_total"),
        [change(0, isr=(1, 2))],
        [RemoveTopicRecord(topic_id=TopicId(TOPIC))],
        [broker_change(1, fenced=1)],
    ) == [(3, 1000)]


def test_churn_counts_changes_of_leaders_and_not_their_begin() -> None:
    names = ("partition", "changes", "to_none")

    assert derived(
        "leadership_churn",
        names,
        [change(0, leader=-1)],
        [change(0, leader=2)],
        [change(0, isr=(1, 2))],
        [change(0, leader=1)],
    ) == [(0, 3, 1)]


def test_changes_are_counted_by_time_and_cause() -> None:
    names = ("what", "change", "cause", "changes", "to_none")

    # Ten batches, one second each: stretches of less than that hold one change each.
    found = derived(
        "change_counts",
        names,
        [change(0, leader=-1)],
        [change(0, leader=2)],
        [change(0, isr=(1, 2))],
        [change(0, isr=(1, 2, 3))],
    )

    assert sum(row[3] for row in found if row[0] == "leader") == 2  # type: ignore[misc]
    assert sum(row[4] for row in found) == 1  # type: ignore[misc]
    assert sorted(str(row[1]) for row in found if row[0] == "isr") == ["expand", "shrink"]


def test_skew_compares_directories_of_a_broker_and_brokers() -> None:
    names = ("scope", "broker", "replicas", "leaders", "preferred_leaders", "deviation")
    names += ("leader_deviation",)
    rows = derived("skew", names, [broker_change(2, log_dirs=only(DIRECTORIES[2][0]))])

    assert rows[:4] == [
        ("broker", 1, 2, 2, 2, 1.0, 3.0),
        ("broker", 2, 1, 0, 0, 0.0, -1.0),
        ("broker", 3, 1, 0, 0, 0.0, -1.0),
        ("broker", 4, 0, 0, 0, -1.0, -1.0),
    ]
    assert sorted(rows[4:], key=str) == [
        ("directory", 1, 0, 0, 0, -1.0, -1.0),
        ("directory", 1, 2, 2, 2, 1.0, 1.0),
        ("directory", 2, 1, 0, 0, 0.0, None),
        ("directory", 3, 0, 0, 0, -1.0, None),
        ("directory", 3, 1, 0, 0, 1.0, None),
        ("directory", 4, 0, 0, 0, None, None),
        ("directory", 4, 0, 0, 0, None, None),
    ]


def test_availability_is_cut_at_midnight_and_counts_what_is_still_open() -> None:
    # The first batch is of 23:00, the next ones follow half an hour later each.
    names = ("day", "partitions", "partition_ms", "leaderless_ms", "availability")
    names += ("unwritable_ms", "write_availability")
    hour = 3_600_000
    later = [[change(1, leader=-1)], [broker_change(4, fenced=1)], [broker_change(4, fenced=-1)]]

    assert derived("availability", names, *later, step_s=1800) == [
        (date(2026, 1, 1), 2, 2 * hour, hour // 2, 0.75, hour // 2, 0.75),
        (date(2026, 1, 2), 2, hour, hour // 2, 0.5, hour // 2, 0.5),
    ]


def test_tables_of_an_empty_log_are_empty() -> None:
    found = tables_of([table.name for table in TABLES], [])

    assert [name for name, rows in found.items() if rows] == ["logs"]
