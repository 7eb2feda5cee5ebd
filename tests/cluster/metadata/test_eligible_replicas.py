"""The stories of eligible replicas as data, and the lines that metadata records become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from jbodlab.metadata.records.cluster_records import (
    ENTER_CONTROLLED_SHUTDOWN,
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
)
from jbodlab.metadata.records.config_records import FeatureLevelRecord, NoOpRecord
from jbodlab.metadata.records.metadata_version import versioned
from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.topic_records import (
    RECOVERING,
    ClearElrRecord,
    PartitionChangeRecord,
    TopicRecord,
)
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, TopicId
from tests.builders import brokers, directory, named_uuid, partition
from tests.cluster.eligible_replicas import NOTHING, Step, Story, read_stories, rewrite_story
from tests.cluster.metadata_changes import MetadataChanges
from tests.metadata_batches import data_batch

DIFFERENCES = Path(__file__).parents[3] / "docs" / "differences-from-kafka.md"
STORIES = read_stories()
LEVEL = 30
FOO = TopicId(named_uuid("foo"))
Write = Callable[..., None]


def test_there_are_forty_situations_of_every_minimum() -> None:
    names = Counter((story.title, each.topic) for story in STORIES for each in story.situations)

    assert len(names) >= 40
    assert set(names.values()) == {1}
    minima = {each.configs["min.insync.replicas"] for s in STORIES for each in s.situations}
    assert minima == {"1", "2", "3"}


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_where_kafka_has_it_otherwise_the_table_of_differences_says_why(story: Story) -> None:
    _, _, section = DIFFERENCES.read_text("utf-8").partition("### Eligible leader replicas\n")
    section = section.partition("\n## ")[0]
    for step in story.steps:
        for subject, what in step.kafkas.items():
            assert what != step.ours.get(subject, NOTHING), (step.command, subject)
            assert step.reasons[subject] in section, (step.command, subject)


def test_what_kafka_writes_is_what_we_write_but_for_its_own_lines() -> None:
    step = Step("stop 1", ours={"a": "1", "b": "2"}, kafkas={"b": NOTHING, "c": "3"})

    assert step.expected(is_kafka=False) == {"a": "1", "b": "2"}
    assert step.expected(is_kafka=True) == {"a": "1", "c": "3"}


def test_a_rewritten_story_has_a_line_of_kafkas_only_where_it_differs(tmp_path: Path) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("== One\ntopic a replicas 1,2 minimum 2 x=y\nstop 1\n\n== Two\nstart 1\n")

    rewrite_story("One", [{"a": "isr 2", "broker 1": "fenced"}], is_kafka=False, path=path)
    rewrite_story("One", [{"a": "isr 2 elr 1", "broker 1": "fenced"}], is_kafka=True, path=path)

    assert path.read_text() == (
        "== One\ntopic a replicas 1,2 minimum 2 x=y\nstop 1\n    a: isr 2\n"
        "    kafka a [?]: isr 2 elr 1\n    broker 1: fenced\n\n== Two\nstart 1\n"
    )


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Append records to the log of a controller."""

    def append(*records: Record) -> None:
        path = tmp_path / "00000000000000000000.log"
        versions = [versioned(record, LEVEL) for record in records]
        with path.open("ab") as file:
            file.write(data_batch(versions, base_offset=0, epoch=1, timestamp_ms=0))

    append(TopicRecord(name="foo", topic_id=FOO), NoOpRecord())
    append(partition((1, 2), "A1,B1").state.to_record(FOO, 0))
    return append


def test_a_line_has_what_a_record_changes(tmp_path: Path, write: Write) -> None:
    changes = MetadataChanges([], tmp_path)
    assert list(changes.read_on()) == [("foo", "created"), ("foo", "partition 0")]

    write(
        PartitionChangeRecord(
            topic_id=FOO, partition_id=0, isr=brokers(3, 1), eligible_leader_replicas=()
        ),
        PartitionChangeRecord(
            topic_id=FOO,
            partition_id=0,
            leader=BrokerId(2),
            leader_recovery_state=RECOVERING,
            directories=(LOST, directory("B2")),
        ),
        ClearElrRecord(topic_name=""),
        ClearElrRecord(topic_name="foo"),
        FeatureLevelRecord(name="x", feature_level=1),
    )

    assert list(changes.read_on()) == [
        ("foo", "isr 1,3 elr -"),
        ("foo", "leader 2 recovering lost 1 assigned 2"),
        ("cluster", "clear elr"),
        ("foo", "clear elr"),
        ("cluster", "x=1"),
    ]
    assert list(changes.read_on()) == []


def test_a_record_that_changes_nothing_of_a_broker_is_left_out(
    tmp_path: Path, write: Write
) -> None:
    changes = MetadataChanges([], tmp_path)
    change = {"broker_id": BrokerId(1), "broker_epoch": BrokerEpoch(5)}
    write(
        BrokerRegistrationChangeRecord(**change, in_controlled_shutdown=ENTER_CONTROLLED_SHUTDOWN),
        BrokerRegistrationChangeRecord(**change, fenced=FENCE),
        BrokerRegistrationChangeRecord(**change, fenced=FENCE),
        BrokerRegistrationChangeRecord(**change, fenced=UNFENCE),
    )

    lines = [line for subject, line in changes.read_on() if subject == "broker 1"]

    assert lines == ["shutting-down", "fenced", "unfenced"]
