"""A picture of a cluster tells what was told last, also of brokers that are silent now."""

from __future__ import annotations

from dataclasses import replace

from jbodlab.picture.cluster_picture import OFFLINE, ONLINE, UNKNOWN
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from tests.lab.pictures import log_dir_told, pictured

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
FIRST, SECOND = Place(1, 1), Place(2, 1)
PICTURE = pictured({P0: (1, 2), P1: (2,)}, {FIRST: {P0: 100}, SECOND: {P0: 90, P1: 50}})


def test_what_lies_where_is_known_of_a_broker_that_owes_an_answer() -> None:
    first, second = PICTURE.brokers
    silent = replace(first, log_dirs=None, before=first.log_dirs)
    seen = replace(PICTURE, brokers=[silent, second])

    assert [each.state for each in silent.directories] == [UNKNOWN]
    assert [each.state for each in silent.last_told] == [ONLINE]
    assert seen.contents == PICTURE.contents == {FIRST: {P0: 100}, SECOND: {P0: 90, P1: 50}}
    assert seen.bytes_of([P0]) == 190


def test_a_directory_that_was_never_told_of_is_neither_online_nor_offline() -> None:
    first, second = PICTURE.brokers
    seen = replace(PICTURE, brokers=[replace(first, log_dirs=None), second])

    assert (set(seen.contents), set(seen.offline)) == ({SECOND}, set())


def test_a_directory_with_an_error_or_without_a_name_is_offline() -> None:
    first, second = PICTURE.brokers
    failed = log_dir_told(path=str(FIRST), error="KAFKA_STORAGE_ERROR", sizes={})
    seen = replace(
        PICTURE, brokers=[replace(first, log_dirs=[failed]), replace(second, log_dirs=[])]
    )

    assert (set(seen.contents), set(seen.offline)) == (set(), {FIRST, SECOND})
    assert [each.state for one in seen.brokers for each in one.directories] == [OFFLINE, OFFLINE]
