from __future__ import annotations

from jbodlab.metadata.records.cluster_records import (
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import FeatureLevelRecord, NoOpRecord
from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
)
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import register, uid
from tests.analytics.small_logs import (
    TOPIC,
    Answered,
    Row,
    broker_change,
    config,
    picked,
    rows_of,
    tables_of,
)

A, B = uid(1), uid(2)


SESSION = ("state", "valid_from_offset", "valid_to_offset", "duration_ms", "ended_by")


def test_sessions_follow_fencing_shutdown_and_removal() -> None:
    found = rows_of(
        "broker_sessions",
        [
            [register(1, [A])],  # 0
            [broker_change(1, in_controlled_shutdown=1)],  # 1
            [broker_change(1, fenced=1)],  # 2
            [broker_change(1, fenced=1)],  # 3: once more, which changes nothing
            [UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0))],  # 4
        ],
    )

    assert picked(found, *SESSION) == [
        ("unfenced", 0, 1, 1000, "controlled_shutdown"),
        ("controlled_shutdown", 1, 2, 1000, "fenced"),
        ("fenced", 2, 4, 2000, "unregistered"),
    ]


def test_old_records_fence_and_unfence_alike() -> None:
    found = rows_of(
        "broker_sessions",
        [
            [register(1, [])],
            [FenceBrokerRecord(id=BrokerId(1), epoch=BrokerEpoch(0))],
            [UnfenceBrokerRecord(id=BrokerId(1), epoch=BrokerEpoch(0))],
        ],
    )

    assert picked(found, *SESSION) == [
        ("unfenced", 0, 1, 1000, "fenced"),
        ("fenced", 1, 2, 1000, "unfenced"),
        ("unfenced", 2, None, None, None),
    ]


def test_the_same_incarnation_keeps_its_session_and_a_new_epoch_begins_another() -> None:
    found = rows_of(
        "broker_sessions",
        [
            [register(1, [])],  # 0
            [register(1, [A, B])],  # 1: the same, with its directories after an upgrade
            [register(1, [A, B], epoch=2)],  # 2
        ],
    )

    assert picked(found, "broker_epoch", *SESSION) == [
        (0, "unfenced", 0, 2, 2000, "registered"),
        (2, "unfenced", 2, None, None, None),
    ]


def test_a_directory_that_returns_with_a_registration_has_three_intervals() -> None:
    found = rows_of(
        "log_dirs",
        [
            [register(1, [A, B])],
            [broker_change(1, log_dirs=(DirectoryId(A),))],
            [register(1, [A, B], epoch=2)],
        ],
    )

    assert picked(
        sorted(found, key=lambda row: (str(row["directory"]), str(row["valid_from_offset"]))),
        "state",
        "valid_from_offset",
        "valid_to_offset",
        "ended_by",
    ) == [
        ("online", 0, None, None),
        ("online", 0, 1, "failed"),
        ("offline", 1, 2, "registered"),
        ("online", 2, None, None),
    ]


CONFIG = ("resource_type", "resource_name", "name", "value", "valid_from_offset", "valid_to_offset")


def test_a_setting_ends_when_it_is_changed_or_removed() -> None:
    found = rows_of(
        "configs",
        [
            [config("a", "1"), config("b", "x"), config("c", "y", resource="", kind=4)],  # 0 to 2
            [config("a", "1")],  # 3: the same
            [config("a", "2")],  # 4
            [config("a", None), config("never", None)],  # 5, 6
        ],
    )

    assert picked(found, *CONFIG) == [
        ("broker", "", "c", "y", 2, None),
        ("topic", "orders", "a", "1", 0, 4),
        ("topic", "orders", "a", "2", 4, 5),
        ("topic", "orders", "b", "x", 1, None),
    ]


def test_settings_go_with_their_topic_and_do_not_come_back_with_its_name() -> None:
    found = rows_of(
        "configs",
        [
            [TopicRecord(name="orders", topic_id=TopicId(TOPIC)), config("a", "1")],  # 0, 1
            [RemoveTopicRecord(topic_id=TopicId(TOPIC))],  # 2
            [TopicRecord(name="orders", topic_id=TopicId(uid(7)))],  # 3
        ],
    )

    assert picked(found, *CONFIG) == [("topic", "orders", "a", "1", 1, 2)]


def test_a_feature_at_level_0_is_off_and_metadata_version_never_is() -> None:
    found = rows_of(
        "features",
        [
            [FeatureLevelRecord(name="metadata.version", feature_level=17)],
            [FeatureLevelRecord(name="group.version", feature_level=1)],
            [FeatureLevelRecord(name="metadata.version", feature_level=22)],
            [FeatureLevelRecord(name="group.version", feature_level=0)],
        ],
    )

    assert picked(found, "feature", "level", "valid_from_offset", "valid_to_offset") == [
        ("group.version", 1, 1, 3),
        ("metadata.version", 17, 0, 2),
        ("metadata.version", 22, 2, None),
    ]


def test_control_records_give_the_level_of_kraft_version_and_the_controller() -> None:
    found = tables_of(
        ["features", "controller_epochs"],
        [[LeaderChangeMessage(leader_id=3000)], [KRaftVersionRecord(k_raft_version=1)]],  # type: ignore[list-item]
    )

    assert picked(found["features"], "feature", "level") == [("kraft.version", 1)]
    assert picked(found["controller_epochs"], "epoch", "controller") == [(1, 3000)]


def test_a_later_snapshot_is_compared_and_taken_over() -> None:
    found = tables_of(
        ["configs", "problems"],
        [[register(1, [A]), config("a", "1")], [NoOpRecord()]],
        snapshots={2: [register(1, [A]), config("a", "2")]},
    )

    names = ("value", "record_type", "valid_from_offset", "valid_to_offset")
    assert picked(found["configs"], *names) == [
        ("1", "CONFIG_RECORD", 1, 2),
        ("2", "SNAPSHOT", 2, None),
    ]
    assert picked(found["problems"], "kind", "offset") == [("disagreement", 2)]


def test_epochs_join_their_parts_and_know_their_controller_only_from_its_record(
    made_of: Answered,
) -> None:
    counts: list[Row] = [
        {"epoch": epoch, "type": kind, "records": records, "first_offset": first}
        for epoch, kind, first, records in ((5, "A", 130, 20), (4, "A", 90, 10), (5, "B", 100, 30))
    ]
    found = made_of("controller_epochs", record_counts=counts)

    assert picked(found, "epoch", "controller", "from_offset", "to_offset", "records") == [
        (4, None, 90, 100, 10),
        (5, None, 100, None, 50),
    ]
