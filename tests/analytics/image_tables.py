"""Rows of the tables of a replay, by the image that the library's own replay gives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary import kafka_uuid
from tests.analytics.shared import read_table

Rows = list[dict[str, object]]


def ids(values: Iterable[object]) -> list[str]:
    return [kafka_uuid.to_text(value) for value in values]  # type: ignore[arg-type]


def state_row(state: PartitionRegistration) -> dict[str, object]:
    """Return the columns of a state of a partition."""
    same = (
        *("leader", "leader_epoch", "partition_epoch", "leader_recovery_state"),
        *("replicas", "isr", "removing_replicas", "adding_replicas", "last_known_elr"),
    )
    values = {name: getattr(state, name) for name in same} | {"eligible_leader_replicas": state.elr}
    listed = {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
    return listed | {"directories": ids(state.directories)}


def partitions_of(image: MetadataImage) -> Rows:
    return [
        {
            "topic": topic.name,
            "topic_id": kafka_uuid.to_text(topic.topic_id),
            "partition": index,
            **state_row(state),
        }
        for topic in image.topics.by_id.values()
        for index, state in topic.partitions.items()
    ]


def brokers_of(image: MetadataImage) -> Rows:
    return [
        {
            "broker": broker,
            "broker_id": broker,
            "broker_epoch": known.epoch,
            "incarnation_id": kafka_uuid.to_text(known.incarnation_id),
            "end_points": [
                {"name": e.name, "host": e.host, "port": e.port, "security_protocol": 0}
                for e in known.endpoints
            ],
            "features": [],
            "rack": known.rack,
            "fenced": known.fenced,
            "in_controlled_shutdown": known.in_controlled_shutdown,
            "log_dirs": ids(known.directories),
            "cordoned_log_dirs": ids(known.cordoned_directories or ()),  # never null here
        }
        for broker, known in sorted(image.cluster.brokers.items())
    ]


def told(rows: Rows, like: Rows) -> list[str]:
    """Return the columns of rows that others have, whatever their order."""
    names = like[0] if like else ()
    return sorted(str({name: row[name] for name in names}) for row in rows)


def assert_tables_equal_image(output: Path, image: MetadataImage) -> None:
    expected = partitions_of(image)
    assert told(read_table(output, "partitions"), expected) == told(expected, expected)
    brokers = brokers_of(image)
    assert told(read_table(output, "brokers"), brokers) == told(brokers, brokers)
    topics: Rows = [
        {
            "topic": topic.name,
            "topic_id": kafka_uuid.to_text(topic.topic_id),
            "partitions": len(topic.partitions),
            "min_insync_replicas": int(min_isr_of(image, topic.name)),
        }
        for topic in image.topics.by_id.values()
    ]
    assert told(read_table(output, "topics"), topics) == told(topics, topics)
    online = [
        (row["broker"], row["directory"])
        for row in read_table(output, "log_dirs")
        if row["state"] == "online" and row["valid_to_offset"] is None
    ]
    assert sorted(online) == sorted(
        (row["broker"], directory)
        for row in brokers
        for directory in row["log_dirs"]  # type: ignore[attr-defined]
    )


def min_isr_of(image: MetadataImage, topic: str) -> str:
    for kind, name in ((2, topic), (4, "")):
        if (value := image.configs.resource(kind, name).get("min.insync.replicas")) is not None:
            return value
    return "1"


def assert_history_has_no_holes(output: Path) -> None:
    last: dict[tuple[object, object], object] = {}
    rows = read_table(output, "partition_history")
    for row in sorted(rows, key=lambda row: cast(int, row["valid_from_offset"])):
        key = (row["topic_id"], row["partition"])
        if key in last:
            assert last[key] == row["valid_from_offset"], row
        last[key] = row["valid_to_offset"]
