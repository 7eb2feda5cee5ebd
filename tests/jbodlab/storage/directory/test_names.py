from __future__ import annotations

import pytest

from jbodlab.storage.directory import names
from jbodlab.storage.directory.names import DirKind, ParsedDir
from jbodlab.vocabulary.ids import TopicPartition

UID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("name", "topic", "partition", "kind"),
    [
        ("orders-3", "orders", 3, DirKind.CURRENT),
        ("a-b.c-d-0", "a-b.c-d", 0, DirKind.CURRENT),
        ("orders--1", "orders-", 1, DirKind.CURRENT),
        (f"orders-3.{UID}-future", "orders", 3, DirKind.FUTURE),
        (f"a.b-c-3.{UID}-delete", "a.b-c", 3, DirKind.DELETE),
        (f"orders-3.{UID}-stray", "orders", 3, DirKind.STRAY),
        (f"x-1.{UID}-delete-7", f"x-1.{UID}-delete", 7, DirKind.CURRENT),
        ("__cluster_metadata-0", "__cluster_metadata", 0, DirKind.CURRENT),
    ],
)
def test_partition_directory_names_are_taken_apart_at_the_last_dash(name, topic, partition, kind):
    parsed = names.parse_partition_dir(name)

    assert parsed.topic_partition == TopicPartition(topic, partition)
    assert parsed.kind is kind
    assert parsed.unique_id == (None if kind is DirKind.CURRENT else UID)


@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        ".cache",
        ".git",
        "orders",
        "orders-",
        "-3",
        "orders-x",
        "orders-03",
        "orders-99999999999",
        "my topic-3",
        "orders-3-delete",
        f"orders.{UID}-future",
        f"orders-x.{UID}-stray",
        "..-0",
        "t" * 250 + "-0",
    ],
)
def test_foreign_directory_names_are_refused(name):
    with pytest.raises(ValueError, match="not in the form of topic-partition"):
        names.parse_partition_dir(name)


def test_rendered_names_are_parsed_back():
    tp = TopicPartition("orders.eu-west", 12)

    assert names.partition_dir(tp) == "orders.eu-west-12"
    assert names.parse_partition_dir(names.future_dir(tp, UID)) == ParsedDir(
        topic_partition=tp, kind=DirKind.FUTURE, unique_id=UID
    )
    assert names.delete_dir(tp, UID) == f"orders.eu-west-12.{UID}-delete"
    assert names.stray_dir(tp, UID) == f"orders.eu-west-12.{UID}-stray"


def test_long_topics_are_cut_where_the_name_is_not_read_for_the_topic_again():
    tp = TopicPartition("t" * 249, 100)

    assert len(names.delete_dir(tp, UID)) == 255
    assert names.delete_dir(tp, UID).endswith(f"t-100.{UID}-delete")
    assert len(names.stray_dir(tp, UID)) == 255
    with pytest.raises(ValueError, match="longer than 255"):
        names.future_dir(tp, UID)


def test_files_are_named_by_their_offset_in_20_digits():
    assert names.log_file(42) == "00000000000000000042.log"
    assert names.index_file(42) == "00000000000000000042.index"
    assert names.time_index_file(42) == "00000000000000000042.timeindex"
    assert names.txn_index_file(42) == "00000000000000000042.txnindex"
    assert names.snapshot_file(42) == "00000000000000000042.snapshot"
    assert names.parse_offset("00000000000000000042.log.deleted") == 42


@pytest.mark.parametrize("name", ["42.log", "0000000000000000004x.log", "x.log", ""])
def test_files_without_an_offset_are_refused(name):
    with pytest.raises(ValueError, match="does not begin with an offset"):
        names.parse_offset(name)
    assert names.with_suffix([name], ".log") == []


@pytest.mark.parametrize("partition", [0, 10, 100, 2_147_483_647])
@pytest.mark.parametrize("letters", [1, 200, 205, 209, 210, 211, 213, 214])
def test_cut_names_keep_all_of_the_partition(letters: int, partition: int) -> None:
    tp = TopicPartition("t" * letters, partition)

    for name in (
        names.delete_dir(tp, UID),
        names.stray_dir(tp, UID),
        names.moved_dir(tp, UID),
    ):
        parsed = names.parse_partition_dir(name)
        assert len(name) <= 255
        assert parsed.topic_partition.partition == partition
        assert parsed.may_be_of(tp)
        assert not parsed.may_be_of(TopicPartition("u" * letters, partition))
        assert not parsed.may_be_of(TopicPartition("t" * letters, partition - 1))


def test_only_names_that_may_be_cut_may_be_of_a_topic_that_goes_on() -> None:
    short, long = TopicPartition("t" * 209, 0), TopicPartition("t" * 212, 0)

    left = names.parse_partition_dir(names.moved_dir(long, UID))
    assert left.topic_partition == short
    assert left.may_be_of(short)
    assert left.may_be_of(long)
    for name in (names.partition_dir(short), names.future_dir(short, UID)):
        assert names.parse_partition_dir(name).may_be_of(short)
        assert not names.parse_partition_dir(name).may_be_of(long)
