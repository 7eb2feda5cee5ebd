"""Damage that is found by reading a replica's files once more."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from jbodlab.record_batch.record_batch import build_batch, read_header
from jbodlab.storage.directory.names import DirKind, parse_partition_dir
from jbodlab.storage.log.offset_index import OffsetIndex
from storage_tool.verification import Circumstances, VerifiedReplica, verify_replica

STOPPED = Circumstances(in_use=False, clean=True)
KILLED = Circumstances(in_use=False, clean=False)
RUNNING = Circumstances(in_use=True, clean=False)

BATCHES, RECORDS = 12, 2


@pytest.fixture
def box(make_log):
    """A log of three segments and two leader epochs, every batch in the index, stopped in order."""
    made = make_log(segment_bytes=450, index_interval_bytes=1)
    for number in range(BATCHES):
        made.append(RECORDS, value_size=1, epoch=number // 6, timestamp=1000 + number)
    assert made.log.segment_base_offsets == (0, 10, 20)
    made.log.close(clean=True)
    return made


def verified(
    box, circumstances: Circumstances = STOPPED, recovery_point: int = 0
) -> VerifiedReplica:
    return verify_replica(
        box.fs, box.directory, circumstances, recovery_point, lambda _size: None, lambda _file: None
    )


def found(box, *arguments, **options) -> list[tuple[str, int, int, int | None]]:
    """File, position and offsets of all damage."""
    return [
        (each.file, each.position, each.first_offset, each.last_offset)
        for each in verified(box, *arguments, **options).damage
    ]


def log(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


@pytest.mark.parametrize("circumstances", [STOPPED, KILLED, RUNNING])
def test_a_sound_log_has_no_damage(box, circumstances):
    replica = verified(box, circumstances, recovery_point=24)

    assert replica.damage == ()
    assert replica.segments == 3
    assert replica.size_bytes == sum(map(len, box.batches))
    assert parse_partition_dir(replica.folder.name).kind is DirKind.CURRENT
    assert replica.topic_partition == box.log.topic_partition


def test_every_read_is_paced(box):
    sizes: list[int] = []

    verify_replica(box.fs, box.directory, STOPPED, 0, sizes.append, lambda _file: None)

    assert sum(sizes) == sum(map(len, box.batches))


@pytest.mark.parametrize("circumstances", [STOPPED, KILLED, RUNNING])
def test_any_changed_byte_of_a_closed_segment_is_found_with_its_offsets(box, circumstances):
    size = len(box.batches[0])
    for base_offset in (0, 10):
        path: Path = box.directory / log(base_offset)
        good = path.read_bytes()
        for position in range(len(good)):
            changed = bytearray(good)
            changed[position] ^= 0x55
            path.write_bytes(changed)

            (file, at, first, last), *more = found(box, circumstances)

            offset = base_offset + position // size * RECORDS
            assert (file, at, first) == (log(base_offset), position - position % size, offset)
            # Without length and magic nobody knows where the next batch begins.
            is_lost = position % size in (8, 9, 10, 11, 16)
            assert last == (base_offset + 9 if is_lost else offset + RECORDS - 1)
            assert not more
        path.write_bytes(good)


def test_several_places_are_found_each_with_its_offsets(box):
    size = len(box.batches[0])
    path = box.directory / log(0)
    changed = bytearray(path.read_bytes())
    changed[size - 1] ^= 1
    changed[4 * size - 1] ^= 1
    path.write_bytes(changed)

    assert found(box) == [(log(0), 0, 0, 1), (log(0), 3 * size, 6, 7)]


def test_a_header_of_zeros_costs_the_rest_of_its_segment(box):
    size = len(box.batches[0])
    path = box.directory / log(10)
    data = path.read_bytes()
    path.write_bytes(data[:size] + bytes(61) + data[size + 61 :])

    assert found(box) == [(log(10), size, 12, 19)]


@pytest.mark.parametrize("lost", [1, 30])
def test_a_file_that_is_short_is_found_also_between_two_batches(box, lost):
    size = len(box.batches[0])
    path = box.directory / log(10)
    path.write_bytes(path.read_bytes()[: 4 * size - (lost if lost == 1 else 0)])

    whole = 3 if lost == 1 else 4
    assert (log(10), whole * size, 10 + RECORDS * whole, 19) in found(box)


def test_a_missing_segment_is_found(box):
    (box.directory / log(10)).unlink()

    assert (log(0), 5 * len(box.batches[0]), 10, 19) in found(box)


def test_an_end_that_was_on_the_disk_is_missed(box):
    path = box.directory / log(20)
    path.write_bytes(path.read_bytes()[: len(box.batches[0])])

    assert (log(20), len(box.batches[0]), 22, 23) in found(box, KILLED, recovery_point=24)
    assert found(box, KILLED, recovery_point=22) == []


def test_what_a_crash_tore_off_the_end_is_no_damage_and_anything_else_is(box):
    path = box.directory / log(20)
    size = len(box.batches[0])
    good = path.read_bytes()
    for torn in (good[:-1], good[: size + 20], good[:-1] + b"\xff", good[:size] + bytes(size)):
        path.write_bytes(torn)
        assert found(box, KILLED, recovery_point=22) == []
        # It was on the disk, or nothing tore it.
        assert found(box, KILLED, recovery_point=24)
        assert found(box, STOPPED, recovery_point=24)
    # A sound batch lies behind it.
    path.write_bytes(good[: size - 1] + b"\xff" + good[size:])
    assert found(box, KILLED, recovery_point=20) == [(log(20), 0, 20, 21)]


def test_a_segment_that_grows_counts_as_far_as_whole_batches_go(box):
    path = box.directory / log(20)
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    assert found(box, RUNNING) == []

    path.write_bytes(good[:-1] + b"\xff")
    assert found(box, RUNNING) == [(log(20), len(good) // 2, 22, None)]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd", "descending"])
def test_an_index_that_is_not_usable_is_found_and_the_records_are_well(box, kind, damage):
    path = box.directory / f"{10:020d}.{kind}"
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(good[:-1] if damage == "odd" else good + good)

    (one,) = verified(box).damage

    assert one.in_index
    assert (one.file, one.first_offset, one.last_offset) == (path.name, 10, 19)


@pytest.mark.parametrize(("offset", "position"), [(0, 1), (-2, 0), (0, 10_000), (100, 0)])
def test_an_index_entry_that_leads_astray_is_found(box, offset, position):
    """Into a batch, to one behind its offset, out of the segment, of an offset behind its end."""
    path = box.directory / f"{0:020d}.index"
    entries = OffsetIndex.decode(path, path.read_bytes(), 0).entries
    last_offset, last_position = entries[-1]
    index = OffsetIndex(0)
    for entry in entries[:-2]:
        index.append(*entry)
    index.append(last_offset + offset, last_position + position)
    path.write_bytes(index.encode())

    (one,) = verified(box).damage

    assert one.in_index
    assert one.file == path.name


def test_indexes_of_a_segment_that_is_appended_to_are_not_asked_for(box):
    for path in box.directory.glob(f"{20:020d}.*index"):
        path.unlink()

    assert found(box, RUNNING) == []
    assert found(box, KILLED) == []
    assert len(found(box, STOPPED)) == 2


def test_gaps_of_a_compacted_replica_are_no_damage(make_log):
    box = make_log(segment_bytes=300, cleanup_policy="compact")
    for offset in (0, 5, 9, 30):
        batch = build_batch(
            [(b"k", b"v" * 150)], base_offset=offset, leader_epoch=0, timestamp_ms=1
        )
        box.log.append([batch], [read_header(batch)])
    box.log.close(clean=True)

    assert found(box)
    assert found(box, replace(STOPPED, has_gaps=True)) == []
