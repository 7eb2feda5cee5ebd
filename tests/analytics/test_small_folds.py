from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from analytics.rare.cluster_keys import EpochPart, controller_epochs, make_small_fold
from analytics.rare.key_history import Event, Sync
from jbodlab.metadata.records import frame
from jbodlab.metadata.records.cluster_records import (
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    encode_control,
)
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import RemoveTopicRecord, TopicRecord
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import register, uid
from tests.analytics.small_logs import TOPIC, Row, broker_change, config, events_of, small_rows

A, B = uid(1), uid(2)


def rows(kind: str, *batches: Sequence[Record], syncs: tuple[Sync, ...] = ()) -> list[Row]:
    folded_rows = small_rows(events_of(batches), syncs)
    return [row[kind] for row in folded_rows if row["kind"] == kind]  # type: ignore[misc]


def picked(found: list[Row], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in found]


SESSION = ("state", "valid_from_offset", "valid_to_offset", "duration_ms", "ended_by")


def test_sessions_follow_fencing_shutdown_and_removal() -> None:
    found = rows(
        "broker_session",
        [register(1, [A])],  # 0
        [broker_change(1, in_controlled_shutdown=1)],  # 1
        [broker_change(1, fenced=1)],  # 2
        [broker_change(1, fenced=1)],  # 3: once more, which changes nothing
        [UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0))],  # 4
    )

    assert picked(found, *SESSION) == [
        ("unfenced", 0, 1, 1000, "controlled_shutdown"),
        ("controlled_shutdown", 1, 2, 1000, "fenced"),
        ("fenced", 2, 4, 2000, "unregistered"),
    ]


def test_old_records_fence_and_unfence_alike() -> None:
    found = rows(
        "broker_session",
        [register(1, [])],
        [FenceBrokerRecord(id=BrokerId(1), epoch=BrokerEpoch(0))],
        [UnfenceBrokerRecord(id=BrokerId(1), epoch=BrokerEpoch(0))],
    )

    assert picked(found, *SESSION) == [
        ("unfenced", 0, 1, 1000, "fenced"),
        ("fenced", 1, 2, 1000, "unfenced"),
        ("unfenced", 2, None, None, None),
    ]


def test_the_same_incarnation_keeps_its_session_and_a_new_epoch_begins_another() -> None:
    found = rows(
        "broker_session",
        [register(1, [])],  # 0
        [register(1, [A, B])],  # 1: the same, with its directories after an upgrade
        [register(1, [A, B], epoch=2)],  # 2
    )

    assert picked(found, "broker_epoch", *SESSION) == [
        (0, "unfenced", 0, 2, 2000, "registered"),
        (2, "unfenced", 2, None, None, None),
    ]


def test_a_directory_that_returns_with_a_registration_has_three_intervals() -> None:
    found = rows(
        "log_dir",
        [register(1, [A, B])],
        [broker_change(1, log_dirs=(DirectoryId(A),))],
        [register(1, [A, B], epoch=2)],
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
    found = rows(
        "config",
        [config("a", "1"), config("b", "x"), config("c", "y", resource="", kind=4)],  # 0 to 2
        [config("a", "1")],  # 3: the same
        [config("a", "2")],  # 4
        [config("a", None), config("never", None)],  # 5, 6
    )

    assert picked(found, *CONFIG) == [
        ("broker", "", "c", "y", 2, None),
        ("topic", "orders", "a", "1", 0, 4),
        ("topic", "orders", "a", "2", 4, 5),
        ("topic", "orders", "b", "x", 1, None),
    ]


def test_settings_go_with_their_topic_and_do_not_come_back_with_its_name() -> None:
    found = rows(
        "config",
        [TopicRecord(name="orders", topic_id=TopicId(TOPIC)), config("a", "1")],  # 0, 1
        [RemoveTopicRecord(topic_id=TopicId(TOPIC))],  # 2
        [TopicRecord(name="orders", topic_id=TopicId(uid(7)))],  # 3
    )

    assert picked(found, *CONFIG) == [("topic", "orders", "a", "1", 1, 2)]


def test_a_feature_at_level_0_is_off_and_metadata_version_never_is() -> None:
    found = rows(
        "feature",
        [FeatureLevelRecord(name="metadata.version", feature_level=17)],
        [FeatureLevelRecord(name="group.version", feature_level=1)],
        [FeatureLevelRecord(name="metadata.version", feature_level=22)],
        [FeatureLevelRecord(name="group.version", feature_level=0)],
    )

    assert picked(found, "feature", "level", "valid_from_offset", "valid_to_offset") == [
        ("group.version", 1, 1, 3),
        ("metadata.version", 17, 0, 2),
        ("metadata.version", 22, 2, None),
    ]


def test_control_records_give_the_level_of_kraft_version_and_the_controller() -> None:
    leader = control_event(LeaderChangeMessage(leader_id=3000), 0)
    version = control_event(KRaftVersionRecord(k_raft_version=1), 1)

    assert picked(folded("f/kraft.version", version, "feature"), "feature", "level") == [
        ("kraft.version", 1)
    ]
    assert picked(folded("e/7", leader, "controller_epoch"), "epoch", "controller") == [(7, 3000)]


def test_a_base_snapshot_gives_first_states_and_a_later_one_is_compared() -> None:
    base = Sync(offset=10, time=0, file="base", is_base=True)
    later = Sync(offset=20, time=5, file="later", is_base=False)
    records = [register(1, [A]), config("a", "1")]
    events = [
        *of_snapshot(records, 10),
        *of_snapshot([register(1, [A]), config("a", "2")], 20),
    ]

    found = small_rows(events, (base, later))

    configs = [row["config"] for row in found if row["kind"] == "config"]
    assert picked(configs, "value", "record_type", "valid_from_offset", "valid_to_offset") == [  # type: ignore[arg-type]
        ("1", "SNAPSHOT", 10, 20),
        ("2", "SNAPSHOT", 20, None),
    ]
    problems = [row["problem"] for row in found if row["kind"] == "problem"]
    assert picked(problems, "file", "kind") == [("later", "disagreement")]  # type: ignore[arg-type]


def test_epochs_join_their_parts_and_know_their_controller_only_from_its_record() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC).microsecond
    parts = [
        EpochPart(5, 130, moment, 20),
        EpochPart(4, 90, moment, 10),
        EpochPart(5, 100, moment, 30),
    ]

    assert picked(
        controller_epochs(parts, {5: 3000}),
        "epoch",
        "controller",
        "from_offset",
        "to_offset",
        "records",
    ) == [(4, None, 90, 100, 10), (5, 3000, 100, None, 50)]


def control_event(record: LeaderChangeMessage | KRaftVersionRecord, offset: int) -> Event:
    _, value = encode_control(record)
    return Event("", offset, False, offset, 0, offset, offset, "log", record.NAME, value)


def folded(key: str, event: Event, kind: str) -> list[Row]:
    fold = make_small_fold(key)
    fold.replay(event)
    fold.finish()
    return [row[kind] for row in fold.history.rows]  # type: ignore[misc]


def of_snapshot(records: Sequence[Record], end: int) -> list[Event]:
    return [
        Event(
            "",
            end,
            True,
            index,
            0,
            0,
            index,
            "snapshot",
            record.NAME,
            frame.encode(record, record.HIGHEST_VERSION),
        )
        for index, record in enumerate(records)
    ]
