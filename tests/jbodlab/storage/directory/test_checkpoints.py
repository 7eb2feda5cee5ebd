from __future__ import annotations

import pytest

from jbodlab.storage.directory.checkpoints import read_offsets, write_offsets
from jbodlab.storage.directory.partition_metadata import read_topic_id, write_topic_id
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.leader_epochs import read_leader_epochs
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import CorruptRecordError
from jbodlab.vocabulary.ids import TopicPartition

FS = PosixFileSystem()


def test_offsets_are_written_as_kafka_writes_them(tmp_path):
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {TopicPartition("topicA", 0): 123, TopicPartition("topicB", 3): 0}

    write_offsets(FS, path, offsets)

    assert path.read_text() == "0\n2\ntopicA 0 123\ntopicB 3 0\n"
    assert read_offsets(FS, path) == offsets


@pytest.mark.parametrize("text", ["", "0\n", "0\n0\n"])
def test_an_empty_file_has_no_entries(tmp_path, text):
    (tmp_path / "c").write_text(text)

    assert read_offsets(FS, tmp_path / "c") == {}


def test_a_missing_file_has_no_entries(tmp_path):
    assert read_offsets(FS, tmp_path / "c") == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x\n2\na 0 1\nb 1 2\n", "line 1: expected a version, got 'x'"),
        ("0\nx\na 0 1\nb 1 2\n", "line 2: expected a number of entries, got 'x'"),
        (
            "0\n3\na 0 1\nt 0\nb 1 2\n",
            "line 4: expected a topic, a partition and an offset, got 't 0'",
        ),
        ("0\n3\na 0 1\n\nb 1 2\n", "line 4: expected a topic, a partition and an offset, got ''"),
        ("0\n3\nt 1 2 3\na 0 1\nb 1 2\n", "line 3: expected a topic"),
        ("0\n3\na 0 1\nb 1 2\nt 0 x\n", "line 5: expected a topic"),
        ("0\n3\na 0 1\nb 1 2\nt 0 -5\n", "line 5: expected a topic"),
        ("0\n3\na 0 1\nb 1 2\nt 0 1_000\n", "line 5: expected a topic"),
        ("0\n3\na 0 1\nb 1 2\nt 0 99999999999999999999\n", "line 5: expected a topic"),
        ("0\n3\na 0 1\nb 1 2\n", "line 2: expected 3 entries, got 2"),
        ("0\n1\na 0 1\nb 1 2\n", "line 2: expected 1 entries, got 2"),
    ],
)
def test_well_formed_lines_of_a_malformed_file_of_offsets_are_kept(tmp_path, caplog, text, told):
    path = tmp_path / "log-start-offset-checkpoint"
    path.write_text(text)

    offsets = read_offsets(FS, path)

    assert offsets == {TopicPartition("a", 0): 1, TopicPartition("b", 1): 2}
    (warning,) = caplog.records
    assert str(path) in warning.getMessage()
    assert told in warning.getMessage()


def test_a_file_of_offsets_of_another_version_is_not_used(tmp_path):
    (tmp_path / "c").write_text("1\n1\na 0 1\n")

    with pytest.raises(CorruptRecordError, match="Unrecognised version:1, expected version: 0"):
        read_offsets(FS, tmp_path / "c")


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("x\n", "Malformed line in checkpoint file [PATH]: x", 0),
        ("0\nx\n", "Malformed line in checkpoint file [PATH]: x", 2),
        ("1\n0\n", "Unrecognised version:1, expected version: 0", 0),
        ("0\n1\n1\n", "Malformed line in checkpoint file [PATH]: 1", 4),
        ("0\n2\n0 1\n1 2 3\n", "Malformed line in checkpoint file [PATH]: 1 2 3", 8),
        ("0\n1\n0 x\n", "Malformed line in checkpoint file [PATH]: x is not a number", 0),
        (
            "0\n2\n0 1\n",
            "Expected 2 entries in checkpoint file [PATH], but found only 1",
            8,
        ),
    ],
)
def test_a_malformed_file_of_leader_epochs_is_damaged(tmp_path, text, message, position):
    path = tmp_path / "c"
    path.write_text(text)

    with pytest.raises(CorruptRecordError) as raised:
        read_leader_epochs(FS, path)

    assert raised.value.reason == message.replace("PATH", str(path))
    assert raised.value.position == position


def test_topic_id_is_two_lines_without_a_newline_at_the_end(tmp_path):
    path = tmp_path / "partition.metadata"
    topic_id = kafka_uuid.parse("3vTqHHLJT-6vyrZhKjxz9g")

    write_topic_id(FS, path, topic_id)

    assert path.read_bytes() == b"version: 0\ntopic_id: 3vTqHHLJT-6vyrZhKjxz9g"
    assert read_topic_id(FS, path) == topic_id
    assert read_topic_id(FS, tmp_path / "missing") is None


def test_a_higher_version_of_partition_metadata_is_accepted(tmp_path):
    (tmp_path / "p").write_text("version: 7\ntopic_id: 3vTqHHLJT-6vyrZhKjxz9g\n")

    assert read_topic_id(FS, tmp_path / "p") == kafka_uuid.parse("3vTqHHLJT-6vyrZhKjxz9g")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: -1\ntopic_id: 3vTqHHLJT-6vyrZhKjxz9g",
        "version: x\ntopic_id: 3vTqHHLJT-6vyrZhKjxz9g",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: x",
        "topic_id: 3vTqHHLJT-6vyrZhKjxz9g\nversion: 0",
    ],
)
def test_malformed_partition_metadata_is_damaged(tmp_path, text):
    (tmp_path / "p").write_text(text)

    with pytest.raises(CorruptRecordError):
        read_topic_id(FS, tmp_path / "p")
