"""Rows of the tables of a replay, by the image that the library's own replay gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary import kafka_uuid

Rows = list[dict[str, object]]
ReadTable = Callable[[Path, str], Rows]


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
    rows: Rows = [
        {
            "topic": topic.name,
            "topic_id": kafka_uuid.to_text(topic.topic_id),
            "partition": index,
            **state_row(state),
        }
        for topic in image.topics.by_id.values()
        for index, state in topic.partitions.items()
    ]
    return sorted(rows, key=lambda row: (str(row["topic"]), row["partition"]))  # type: ignore[return-value]


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


def assert_tables_equal_image(output: Path, image: MetadataImage, read_table: ReadTable) -> None:
    expected = partitions_of(image)
    # Each file is in order by itself.
    found = sorted(
        read_table(output, "partitions"), key=lambda row: (row["topic"], row["partition"])
    )
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    brokers = brokers_of(image)
    found = read_table(output, "brokers")
    assert [{name: row[name] for name in brokers[0]} for row in found] == brokers
    topics = read_table(output, "topics")
    assert [(row["topic"], row["topic_id"], row["partitions"]) for row in topics] == sorted(
        (topic.name, kafka_uuid.to_text(topic.topic_id), len(topic.partitions))
        for topic in image.topics.by_id.values()
    )
    assert [(row["topic"], row["min_insync_replicas"]) for row in topics] == sorted(
        (name, int(min_isr_of(image, name))) for name in image.topics.by_name
    )
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


def assert_history_has_no_holes(output: Path, read_table: ReadTable) -> None:
    last: dict[tuple[object, object], object] = {}
    rows = read_table(output, "partition_history")
    for row in sorted(rows, key=lambda row: cast(int, row["valid_from_offset"])):
        key = (row["topic_id"], row["partition"])
        if key in last:
            assert last[key] == row["valid_from_offset"], row
        last[key] = row["valid_to_offset"]
