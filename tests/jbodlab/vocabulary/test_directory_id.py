"""Reserved directory ids, and when a directory is online."""

from __future__ import annotations

from uuid import UUID

from jbodlab.vocabulary import directory_id, kafka_uuid
from jbodlab.vocabulary.directory_id import LOST, MIGRATING, UNASSIGNED
from jbodlab.vocabulary.ids import DirectoryId

HERE = DirectoryId(UUID("6f877d13-174e-4606-90ab-7f02c87c164c"))
THERE = DirectoryId(UUID("3f668bf6-be2c-4aaa-b2b7-b6c2d2e89eae"))


def test_reserved_ids_are_numbered_as_in_kafkas_code() -> None:
    assert kafka_uuid.to_text(MIGRATING) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert kafka_uuid.to_text(UNASSIGNED) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert kafka_uuid.to_text(LOST) == "AAAAAAAAAAAAAAAAAAAAAg"


def test_low_half_is_compared_signed() -> None:
    assert directory_id.is_reserved(DirectoryId(UUID(int=99)))
    assert directory_id.is_reserved(DirectoryId(UUID(int=1 << 63)))
    assert not directory_id.is_reserved(DirectoryId(UUID(int=100)))
    assert not directory_id.is_reserved(DirectoryId(UUID(int=1 << 64)))
    assert not directory_id.is_reserved(HERE)


def test_only_named_registered_directories_are_online() -> None:
    assert directory_id.is_online(HERE, [HERE])
    assert not directory_id.is_online(THERE, [HERE])
    assert not directory_id.is_online(LOST, [HERE])
    assert directory_id.is_online(UNASSIGNED, [HERE])
    assert directory_id.is_online(MIGRATING, [HERE])


def test_broker_without_directories_has_all_online_but_lost() -> None:
    assert directory_id.is_online(HERE, [])
    assert not directory_id.is_online(LOST, [])


def test_reserved_id_is_never_drawn() -> None:
    raw = [bytes(16), UUID(int=2).bytes, bytes(range(16))]
    draws = iter(raw)

    drawn = directory_id.random_directory_id(lambda size: next(draws))

    assert not directory_id.is_reserved(drawn)
