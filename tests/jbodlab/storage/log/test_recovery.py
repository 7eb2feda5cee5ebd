"""The log after a kill, and how it becomes whole again."""

from __future__ import annotations

import shutil

import pytest

from jbodlab.record_batch.record_batch import read_header
from jbodlab.storage.directory import names
from jbodlab.storage.directory.posix_filesystem import PosixAppendFile
from jbodlab.storage.log.producer_state import ProducerState
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


def prefixes(batches: list[bytes]) -> list[bytes]:
    return [b"".join(batches[:count]) for count in range(len(batches) + 1)]


def cut_file(path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


@pytest.fixture
def bytes_read(monkeypatch):
    """Count what is read of the log files."""
    counts = [0]
    real = PosixAppendFile.pread

    def pread(self, size, position):
        counts[0] += size
        return real(self, size, position)

    monkeypatch.setattr(PosixAppendFile, "pread", pread)
    return counts


def test_a_killed_process_loses_nothing_that_was_written(make_log):
    box = make_log(segment_bytes=400, index_interval_bytes=100)
    for number in range(20):
        box.append(2, epoch=number // 7, timestamp=1000 + number, producer=(7, 0, 2 * number))
    before = box.log
    before.roll()
    index_files = {path.name: path.read_bytes() for path in box.directory.glob("*index")}

    after = box.reopen(clean=False)

    assert box.content() == b"".join(box.batches)
    assert after.segment_base_offsets == before.segment_base_offsets
    assert after.log_end_offset == 40
    assert after.topic_id == before.topic_id
    assert after.topic_partition == before.topic_partition
    assert after.epochs.entries == ((0, 0), (1, 14), (2, 28))
    assert after.largest_timestamp == 1019
    assert after.producers.entry(7).last_sequence == 39
    assert after.recovery_point == 0
    assert index_files == {path.name: path.read_bytes() for path in box.directory.glob("*index")}


@pytest.mark.parametrize("segment_bytes", [1 << 20, 170])
def test_any_torn_tail_leaves_a_prefix_of_the_batches(make_log, tmp_path, segment_bytes):
    box = make_log(segment_bytes=segment_bytes, index_interval_bytes=100)
    for number in range(4):
        box.append(2, value_size=0, epoch=number // 2, producer=(7, 0, 2 * number))
    saved = tmp_path / "saved"
    shutil.copytree(box.directory, saved)
    expected = prefixes(box.batches)
    logs = sorted(path.name for path in saved.glob("*.log"))

    for name in logs:
        for size in range((saved / name).stat().st_size):
            box.log.abandon()
            shutil.rmtree(box.directory)
            shutil.copytree(saved, box.directory)
            cut_file(box.directory / name, size)

            log = box.reopen(clean=False)

            content = box.content()
            assert content in expected
            count = expected.index(content)
            base = int(name[:20])
            # Whole batches in front of the cut are kept, and nothing else.
            assert sum(len(batch) for batch in box.batches[base // 2 : count]) <= size
            assert log.log_end_offset == 2 * count
            assert sorted(log.epochs.entries) == [
                (epoch, 4 * epoch) for epoch in range((count + 1) // 2)
            ]
            entry = log.producers.entry(7)
            assert (entry.last_sequence if entry else -1) == 2 * count - 1
            assert (box.directory / name).stat().st_size <= size


def test_any_changed_byte_leaves_a_prefix_of_the_batches(make_log, tmp_path):
    box = make_log(segment_bytes=170)
    for _ in range(4):
        box.append(2, value_size=0)
    saved = tmp_path / "saved"
    shutil.copytree(box.directory, saved)
    expected = prefixes(box.batches)
    outside_the_crc = set(range(8)) | set(range(12, 16))

    for path in sorted(saved.glob("*.log")):
        for position in range(path.stat().st_size):
            box.log.abandon()
            shutil.rmtree(box.directory)
            shutil.copytree(saved, box.directory)
            changed = bytearray(path.read_bytes())
            changed[position] ^= 0x55
            (box.directory / path.name).write_bytes(changed)

            log = box.reopen(clean=False)

            # Base offset and leader epoch are not covered by the checksum.
            if position % len(box.batches[0]) not in outside_the_crc:
                assert box.content() in expected
                assert log.log_end_offset < 8
            box.append()


def test_segments_behind_damage_are_kept_aside_and_the_loss_is_said(make_log, caplog):
    box = make_log(segment_bytes=200)
    for number in range(6):
        box.append(producer=(7, 0, number))
    assert box.log.segment_base_offsets == (0, 2, 4)
    path = box.directory / "00000000000000000002.log"
    cut_file(path, path.stat().st_size - 1)

    log = box.reopen(clean=False)

    assert log.segment_base_offsets == (0, 2)
    assert log.log_end_offset == 3
    assert [name for name in box.names() if name.startswith("00000000000000000004")] == [
        "00000000000000000004.index.damaged",
        "00000000000000000004.log.damaged",
        "00000000000000000004.timeindex.damaged",
    ]
    (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "this replica has lost the offsets from 3 on" in said.getMessage()
    assert "from offset 4 on) are kept as .damaged" in said.getMessage()
    box.append(producer=(7, 0, 3))
    assert log.log_end_offset == 4


def test_a_segment_that_does_not_join_on_is_kept_aside(make_log):
    box = make_log(segment_bytes=200)
    for _ in range(6):
        box.append()
    path = box.directory / "00000000000000000002.log"
    cut_file(path, len(box.batches[2]))

    log = box.reopen(clean=False)

    assert log.log_end_offset == 3
    assert box.content() == b"".join(box.batches[:3])


@pytest.mark.parametrize("batches_left", [0, 1])
def test_segments_that_power_loss_has_emptied_are_no_end_of_a_compacted_log(make_log, batches_left):
    box = make_log(segment_bytes=200, cleanup_policy="compact")
    for _ in range(5):
        box.append()
    assert box.log.segment_base_offsets == (0, 2, 4)
    cut_file(box.directory / "00000000000000000002.log", batches_left * len(box.batches[2]))
    cut_file(box.directory / "00000000000000000004.log", 0)

    log = box.reopen(clean=False, cleaned_to=1)

    assert log.log_end_offset == 2 + batches_left
    assert box.content() == b"".join(box.batches[: 2 + batches_left])


def test_a_compacted_log_may_end_behind_what_compaction_has_left(make_log):
    box = make_log(segment_bytes=200, cleanup_policy="compact")
    for _ in range(4):
        box.append()
    box.log.roll()
    cut_file(box.directory / "00000000000000000002.log", len(box.batches[2]))

    assert box.reopen(clean=False, cleaned_to=4).log_end_offset == 4


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "what", ["header of zeros", "index gone", "file short", "file short between two batches"]
)
def test_damage_of_a_closed_segment_below_the_recovery_point_is_found_and_said(
    make_log, caplog, what, clean
):
    box = make_log(segment_bytes=300)
    for _ in range(12):
        box.append()
    assert box.log.segment_base_offsets[:3] == (0, 3, 6)
    box.log.close(clean=True)
    path = box.directory / "00000000000000000003.log"
    good, size = path.read_bytes(), len(box.batches[0])
    match what:
        case "header of zeros":
            path.write_bytes(bytes(61) + good[61:])
            end = 3
        case "index gone":
            # Which is how it comes to light that a bit has changed.
            path.with_suffix(".index").unlink()
            path.write_bytes(good[: 2 * size - 1] + b"?" + good[2 * size :])
            end = 4
        case "file short":
            path.write_bytes(good[:-1])
            end = 5
        case _:
            path.write_bytes(good[: 2 * size])
            end = 5

    log = box.reopen(clean=clean, recovery_point=12)

    assert log.log_end_offset == end
    assert log.recovery_point <= end
    assert box.content() == b"".join(box.batches[:end])
    assert "00000000000000000006.log.damaged" in box.names()
    if not what.endswith("batches"):
        kept = (box.directory / "00000000000000000003.log.damaged").read_bytes()
        assert len(kept) == len(good) - (what == "file short")
    (said,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert f"this replica has lost the offsets from {end} on" in said.getMessage()
    assert "from offset 6 on) are kept as .damaged" in said.getMessage()


def test_a_closed_segment_whose_index_is_gone_and_whose_batches_are_sound_is_kept(make_log, caplog):
    box = make_log(segment_bytes=300)
    for _ in range(12):
        box.append()
    box.log.close(clean=True)
    path = box.directory / "00000000000000000003.index"
    path.unlink()

    log = box.reopen(clean=False, recovery_point=12)

    assert log.log_end_offset == 12
    assert path.exists()
    assert box.content() == b"".join(box.batches)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_segments_below_the_recovery_point_are_not_read(make_log, bytes_read):
    box = make_log(segment_bytes=20_000)
    for _ in range(10):
        box.append(value_size=9_000)
    assert box.log.segment_count == 5
    box.log.flush()
    bytes_read[0] = 0

    log = box.reopen(clean=False, recovery_point=10)

    assert bytes_read[0] < 60_000
    assert log.recovery_point == 10
    assert box.content() == b"".join(box.batches)


def test_recovery_begins_in_the_segment_that_contains_the_recovery_point(make_log):
    box = make_log(segment_bytes=200)
    for _ in range(6):
        box.append()
    path = box.directory / "00000000000000000002.log"
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)

    assert box.reopen(clean=False, recovery_point=4).log_end_offset == 6
    assert box.reopen(clean=False, recovery_point=3).log_end_offset == 3


def test_the_recovery_point_is_never_behind_the_end(make_log):
    box = make_log()
    box.append(3)

    assert box.reopen(clean=False, recovery_point=99).recovery_point == 3
    assert box.reopen(clean=False, recovery_point=2).recovery_point == 2


def test_after_a_clean_shutdown_data_is_not_read(make_log, bytes_read):
    box = make_log(segment_bytes=2_000_000)
    for number in range(30):
        box.append(value_size=100_000, timestamp=1000 + number, producer=(7, 0, number))
    assert box.log.segment_count == 2
    box.log.close(clean=True)
    bytes_read[0] = 0

    log = box.reopen(clean=True)

    assert bytes_read[0] < 500_000
    assert log.log_end_offset == 30
    assert log.recovery_point == 30
    assert log.largest_timestamp == 1029
    assert log.producers.entry(7).last_sequence == 29
    assert box.content() == b"".join(box.batches)
    box.append(producer=(7, 0, 30), timestamp=2000)
    box.log.close(clean=True)
    assert box.reopen(clean=True).largest_timestamp == 2000
    assert box.content() == b"".join(box.batches)


def test_a_clean_log_with_a_torn_tail_is_repaired_all_the_same(make_log):
    box = make_log()
    box.append()
    box.append()
    box.log.close(clean=True)
    path = box.directory / "00000000000000000000.log"
    cut_file(path, path.stat().st_size - 1)

    log = box.reopen(clean=True)

    assert log.log_end_offset == 1
    assert path.read_bytes() == box.batches[0]


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        ("index", "missing"),
        ("index", "odd size"),
        ("index", "descending"),
        ("index", "too far"),
        ("timeindex", "missing"),
        ("timeindex", "odd size"),
        ("timeindex", "descending"),
    ],
)
def test_a_missing_or_damaged_index_is_made_anew(make_log, suffix, damage):
    box = make_log(segment_bytes=1000, index_interval_bytes=100)
    for number in range(15):
        box.append(timestamp=1000 + number)
    box.log.close(clean=True)
    path = box.directory / f"00000000000000000000.{suffix}"
    good = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "odd size":
        path.write_bytes(good[:-1])
    elif damage == "descending":
        path.write_bytes(good + good)
    else:
        path.write_bytes(good + b"\x00\x00\x10\x00\x00\x10\x00\x00")

    log = box.reopen(clean=True)

    assert box.content() == b"".join(box.batches)
    assert log.offset_for_timestamp(1007) == (1007, 7)
    assert path.read_bytes() == good


def test_stale_leader_epochs_are_cut_to_what_the_log_holds(make_log):
    box = make_log()
    box.append(2, epoch=1)
    box.append(2, epoch=3)
    (box.directory / "leader-epoch-checkpoint").write_text("0\n3\n1 0\n3 2\n9 50\n")

    assert box.reopen(clean=True).epochs.entries == ((1, 0), (3, 2))
    (box.directory / "leader-epoch-checkpoint").unlink()
    assert box.reopen(clean=False).epochs.entries == ((1, 0), (3, 2))
    assert (box.directory / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n3 2\n"
    assert box.reopen(clean=True, log_start_offset=3).epochs.entries == ((3, 3),)


def test_leader_epochs_are_taken_from_the_batches_that_are_read(make_log):
    box = make_log()
    box.append(2, epoch=1)
    box.append(2, epoch=3)
    (box.directory / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 3\n")

    assert box.reopen(clean=False).epochs.entries == ((1, 0), (3, 2))


@pytest.mark.parametrize("content", ["rubbish\n", "", "0\n3\n0 0\n"])
@pytest.mark.parametrize("clean", [True, False])
def test_leader_epochs_that_a_loss_of_power_took_are_made_anew(make_log, content, clean):
    box = make_log(segment_bytes=300)
    for number in range(12):
        box.append(2, epoch=number // 5)
    box.log.close(clean=True)
    path = box.directory / "leader-epoch-checkpoint"
    good = path.read_text()
    path.write_text(content)

    log = box.reopen(clean=clean, recovery_point=24)

    assert log.epochs.entries == ((0, 0), (1, 10), (2, 20))
    assert path.read_text() == good


def test_a_log_that_ends_below_its_checkpointed_start_begins_there_anew(make_log):
    box = make_log()
    box.append(3, producer=(7, 0, 0))

    log = box.reopen(clean=False, log_start_offset=10)

    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.segment_base_offsets == (10,)
    assert log.epochs.entries == ()
    assert log.producers.entry(7) is None


def test_a_directory_without_segments_gets_one_at_the_log_start(make_log):
    box = make_log()
    box.append()
    for path in box.directory.glob("000*"):
        path.unlink()

    log = box.reopen(clean=False, log_start_offset=5)

    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    assert (box.directory / "00000000000000000005.log").exists()


def test_leftovers_are_removed(make_log):
    box = make_log()
    box.append()
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000000-0000000001.checkpoint.deleted",
        "00000000000000000007.index",
        "00000000000000000007.timeindex",
        "leader-epoch-checkpoint.tmp",
        "notes.txt",
    ):
        (box.directory / name).write_bytes(b"x")

    box.reopen(clean=False)

    assert box.names() == [
        "00000000000000000000-0000000001.checkpoint.deleted",
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "notes.txt",
        "partition.metadata",
    ]


def test_a_finished_swap_replaces_the_segments_in_its_range(make_log):
    box = make_log(segment_bytes=200)
    for _ in range(6):
        box.append()
    assert box.log.segment_base_offsets == (0, 2, 4)
    merged = b"".join(box.batches[:4])
    (box.directory / "00000000000000000000.log.swap").write_bytes(merged)
    (box.directory / "00000000000000000000.index.swap").write_bytes(b"")

    log = box.reopen(clean=False)

    assert log.segment_base_offsets == (0, 4)
    assert box.content() == b"".join(box.batches)
    assert not [name for name in box.names() if name.endswith(".swap")]


def test_an_unfinished_swap_is_undone(make_log):
    box = make_log(segment_bytes=200)
    for _ in range(6):
        box.append()
    (box.directory / "00000000000000000000.log.swap").write_bytes(box.batches[0])
    (box.directory / "00000000000000000000.log.cleaned").write_bytes(b"")

    log = box.reopen(clean=False)

    assert log.segment_base_offsets == (0, 2, 4)
    assert box.content() == b"".join(box.batches)
    assert not [name for name in box.names() if name.endswith((".swap", ".cleaned"))]


def test_producer_state_is_the_same_after_a_kill(make_log):
    box = make_log(segment_bytes=300)
    for number in range(9):
        box.append(2, producer=(7 + number % 2, 0, 2 * (number // 2)))
    before = box.log.producers.copy()

    after = box.reopen(clean=False).producers

    for producer_id in (7, 8):
        old, new = before.entry(producer_id), after.entry(producer_id)
        assert new.epoch == old.epoch
        assert new.batches == old.batches[-len(new.batches) :]
    duplicate = after.check(read_header(box.batches[-1]))
    assert (duplicate.base_offset, duplicate.last_offset) == (16, 17)


def test_a_damaged_snapshot_is_made_anew_from_the_one_before(make_log):
    box = make_log(segment_bytes=300)
    for number in range(7):
        box.append(producer=(7, 0, number))
    box.log.close(clean=True)
    assert [n for n in box.names() if n.endswith(".snapshot")] == [
        "00000000000000000003.snapshot",
        "00000000000000000006.snapshot",
        "00000000000000000007.snapshot",
    ]
    (box.directory / "00000000000000000007.snapshot").write_bytes(b"rubbish")
    (box.directory / "00000000000000000006.snapshot").write_bytes(b"")

    log = box.reopen(clean=True)

    assert log.producers.entry(7).last_sequence == 6
    for offset in (3, 6, 7):
        path = box.directory / names.snapshot_file(offset)
        assert ProducerState.decode(path, path.read_bytes()).entry(7).last_sequence == offset - 1


def test_without_any_snapshot_the_batches_tell(make_log):
    box = make_log(segment_bytes=300)
    for number in range(7):
        box.append(producer=(7, 0, number))
    box.log.close(clean=True)
    for path in box.directory.glob("*.snapshot"):
        path.unlink()

    state = box.reopen(clean=True).producers

    with pytest.raises(KafkaError) as raised:
        state.check(read_header(box.batches[0]))
    assert raised.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(read_header(box.batches[4])).base_offset == 4


def test_snapshots_that_belong_to_no_segment_are_deleted(make_log):
    box = make_log(segment_bytes=300)
    for number in range(7):
        box.append(producer=(7, 0, number))
    box.log.close(clean=True)
    good = (box.directory / "00000000000000000003.snapshot").read_bytes()
    (box.directory / "00000000000000000004.snapshot").write_bytes(good)
    (box.directory / "00000000000000000099.snapshot").write_bytes(good)

    log = box.reopen(clean=True)

    assert log.producers.entry(7).last_sequence == 6
    assert [n for n in box.names() if n.endswith(".snapshot")] == [
        "00000000000000000003.snapshot",
        "00000000000000000006.snapshot",
        "00000000000000000007.snapshot",
    ]


def test_a_failed_load_leaves_no_file_open(make_log, monkeypatch):
    box = make_log()
    box.append()
    box.log.abandon()
    closed = []
    real = PosixAppendFile.close
    monkeypatch.setattr(PosixAppendFile, "close", lambda self: (closed.append(1), real(self))[1])
    monkeypatch.setattr(
        "jbodlab.storage.log.log_loader.LogState", lambda *_, **__: (_ for _ in ()).throw(OSError())
    )

    with pytest.raises(OSError):  # noqa: PT011 - any
        type(box.log).load(
            box.fs,
            box.directory,
            box.config,
            clean=False,
            recovery_point=0,
            log_start_offset=0,
        )

    assert closed == [1]
