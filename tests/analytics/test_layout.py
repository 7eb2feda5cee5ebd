from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analytics.errors import ReplayInputError
from analytics.read.layout import read_chain, read_layout
from analytics.read.metadata_dirs import find_metadata_dirs
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, log_of_one_record, partition_record, uid
from tests.analytics.cases import cases
from tests.analytics.source_rows import agreed_rows, in_order

EACH_BYTE = pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
"""Every byte takes long; that 11 divides no size of a header lets each field be met."""

LAYOUTS = """
a log that begins at 0 is replayed from there | full snapshot no-op    | 0 13 0     | 12    | -
later it is so from the oldest snapshot in it | twice below-8          | 8 13 12    | 12 13 | -
later without a snapshot it misses its start  | full below-8           | 8 12 8     |       | gap 0
a snapshot ahead of the log leaves a gap      | full snapshot cut-8    | 0 12 0     | 12    | gap 8
one that was only formatted misses nothing    | formatted no-log       | None 0 0   | 0     | -
nor does one begun anew behind its snapshots  | alone empty-13         | None 13 13 | 13    | -
snapshots without a log are one gap           | alone                  | None 13 13 | 13    | gap 0
an empty segment changes nothing of that      | alone empty-0          | None 13 13 | 13    | gap 0
nor does one that is begun behind another     | alone empty-12         | None 13 13 | 13    | gap 0
nor do several of them                        | alone empty-0 empty-12 | None 13 13 | 13    | gap 0
nor does one that holds no batch              | alone rubbish-0        | None 13 13 | 13    | gap 0
"""
"""The making of a directory; begin and end, begin of the replay, snapshots that count, problems."""

DONE = {
    "twice": "full snapshot no-op snapshot",
    "alone": "formatted full snapshot no-op snapshot no-log",
}


def log_of(root: Path, done: str = "full") -> Path:
    """Make a log; a full one has six batches of two records, offsets 0 to 11."""
    log = LogBuilder(root, segment_bytes=1 if "below" in done else 1 << 30)
    for word in " ".join(DONE.get(word, word) for word in done.split()).split():
        what, _, number = word.partition("-")
        if word == "full":
            for n in range(100, 106):
                log.append(TopicRecord(name=f"t{n}", topic_id=uid(n)), partition_record(uid(n)))  # type: ignore[arg-type]
        elif word == "no-op":
            log.append(NoOpRecord())
        elif word == "snapshot":
            log.snapshot()
        elif word == "formatted":
            log.snapshot(replace(log.loader.image, epoch=0))
        elif word == "no-log":
            for path in log.segments:
                path.unlink()
        elif what == "below":
            log.log.delete_segments_below(int(number))
        elif what == "cut":
            data = log.segments[0].read_bytes()
            batches = read_chain(data)
            end = int(batches.position[batches.base_offset == int(number)][0])
            log.segments[0].write_bytes(data[:end])
        else:
            text = {"empty": b"", "rubbish": b"no batch"}[what]
            (log.directory / f"{number:>020}.log").write_bytes(text)
    log.close()
    return log.directory


def problems_of(folder: Path) -> list[tuple[str | None, int | None, str | None, str | None]]:
    rows = agreed_rows(read_layout(folder))
    return [(row.problem, row.offset, row.file, row.message) for row in rows if row.problem]


@pytest.mark.parametrize(("done", "offsets", "snapshots", "problems"), cases(LAYOUTS))
def test_a_directory_has_the_layout_of_its_case(
    tmp_path: Path, done: str, offsets: str, snapshots: str, problems: str
) -> None:
    found = read_layout(log_of(tmp_path, done))

    assert f"{found.start_offset} {found.end_offset} {found.replay_from}" == offsets
    assert " ".join(map(str, found.sync_offsets)) == snapshots
    told = [f"{one.kind} {one.offset}" for one in found.problems]
    assert " ".join(told or "-") == problems


def test_snapshots_without_a_log_say_which_one_is_known(tmp_path: Path) -> None:
    layout = read_layout(log_of(tmp_path, "alone"))

    (gap,) = layout.problems
    known = layout.snapshots[-1].name
    assert (layout.log_end_offset, gap.file) == (0, None)
    assert gap.message == f"offsets 0 to 12 are missing: the log has no record, {known} is known"


def test_the_log_is_found_in_its_directory_and_in_folders_around_it(tmp_path: Path) -> None:
    one, two = (log_of_one_record(tmp_path / node) for node in ("node-1", "node-2"))
    (tmp_path / "node-3").mkdir()

    for named, found in ((one, [one]), (one.parent, [one]), (tmp_path, [one, two])):
        assert find_metadata_dirs(str(named)) == tuple(map(str, found))


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_an_input_without_a_log_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")

    with pytest.raises(ReplayInputError, match=name):
        find_metadata_dirs(str(tmp_path / name))


def test_a_missing_segment_is_a_gap(tmp_path: Path) -> None:
    folder = log_of(tmp_path, "full below-0")
    (folder / "00000000000000000004.log").unlink()

    assert problems_of(folder) == [
        ("gap", 4, "00000000000000000006.log", "offsets 4 to 5 are missing")
    ]


@pytest.mark.parametrize("cut", [1, 70, 150])
def test_a_snapshot_that_is_cut_is_not_believed(tmp_path: Path, cut: int) -> None:
    (path,) = log_of(tmp_path, "full snapshot").glob("*.checkpoint")
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-cut])

    layout = read_layout(path.parent)

    assert layout.snapshots == ()
    assert [problem.file for problem in layout.problems] == [path.name]
    assert all(split.snapshot is None for split in layout.splits)


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000012-0000000001.checkpoint.part",
        "00000000000000000012-0000000001.checkpoint.deleted",
        "00000000000000000012.log.deleted",
        "00000000000000000012.snapshot",
        "99999999999999999999.log",
        "09223372036854775807.log",
        "99999999999999999999-0000000001.checkpoint",
        "00000000000000000001-9999999999.checkpoint",
        "0000000000000000000x.log",
        "notes.log",
        "00000000000000000000.log.swp",
    ],
)
def test_files_that_are_unfinished_deleted_or_beyond_every_offset_are_left_alone(
    tmp_path: Path, name: str
) -> None:
    folder = log_of_one_record(tmp_path)
    (folder / name).write_bytes(b"rubbish")

    layout = read_layout(folder)

    assert (layout.start_offset, layout.end_offset, layout.problems) == (0, 1, ())
    assert [row.problem for row in agreed_rows(layout)] == [None]


@pytest.mark.parametrize("target", ["nowhere", "00000000000000000001.log"])
def test_a_link_to_nothing_is_unreadable_and_the_rest_is_read(tmp_path: Path, target: str) -> None:
    link = log_of_one_record(tmp_path) / "00000000000000000001.log"
    link.symlink_to(target)

    layout = read_layout(link.parent)

    assert [(one.file, one.kind) for one in layout.problems] == [(link.name, "unreadable")]
    assert (layout.start_offset, layout.end_offset) == (0, 1)


def test_small_splits_give_the_same_rows(tmp_path: Path) -> None:
    folder = log_of(tmp_path, "full snapshot")

    whole, cut = read_layout(folder), read_layout(folder, split_bytes=100)

    assert len(cut.splits) > len(whole.splits) == 2
    assert in_order(agreed_rows(cut)) == in_order(agreed_rows(whole))
    assert (cut.start_offset, cut.end_offset) == (whole.start_offset, whole.end_offset)


@pytest.mark.parametrize("split_bytes", [100, 1 << 20])
@EACH_BYTE
def test_every_cut_of_a_log_gives_its_first_records_and_says_what_is_missing(
    tmp_path: Path, split_bytes: int, step: int
) -> None:
    (path,) = log_of(tmp_path).glob("*.log")
    data = path.read_bytes()
    whole = agreed_rows(read_layout(path.parent))

    boundaries = {0, *(row.position for row in whole)}
    for size in sorted({*range(0, len(data), step), *boundaries}):  # type: ignore[type-var]
        path.write_bytes(data[:size])
        rows = agreed_rows(read_layout(path.parent, split_bytes))
        records = [row for row in rows if row.problem is None]
        assert records == whole[: len(records)]
        kinds = [row.problem for row in rows if row.problem is not None]
        assert kinds == ([] if size in boundaries else ["torn_tail"])


@pytest.mark.parametrize(("split_bytes", "flipped"), [(100, 0x41), (1 << 20, 0x01)])
@EACH_BYTE
def test_every_changed_byte_is_noticed_and_gives_no_wrong_record(
    tmp_path: Path, split_bytes: int, flipped: int, step: int
) -> None:
    (path,) = log_of(tmp_path).glob("*.log")
    data = path.read_bytes()
    whole = {row.offset: row for row in agreed_rows(read_layout(path.parent))}

    for position in range(0, len(data), step):
        damaged = bytearray(data)
        damaged[position] ^= flipped
        path.write_bytes(damaged)
        rows = agreed_rows(read_layout(path.parent, split_bytes))
        records = [row for row in rows if row.problem is None]
        assert len(records) < len(rows), position
        for row in records:
            assert row._replace(epoch=1) == whole[row.offset], position


def test_an_epoch_that_rises_between_splits_without_a_change_of_the_leader_is_a_problem(
    tmp_path: Path,
) -> None:
    log = LogBuilder(tmp_path, segment_bytes=1)
    log.append(NoOpRecord())
    log.new_leader()
    log.append(NoOpRecord())
    assert problems_of(log.directory) == []
    log.epoch = 7
    log.append(NoOpRecord())
    log.close()

    ((kind, offset, _, message),) = problems_of(log.directory)

    assert (kind, offset) == ("epoch", 3)
    assert message == "epoch 7 behind epoch 2 without a change of the leader"


@pytest.mark.parametrize("position", range(12, 16))
def test_a_snapshot_whose_batches_have_another_epoch_is_not_believed(
    tmp_path: Path, position: int
) -> None:
    (path,) = log_of(tmp_path, "full snapshot").glob("*.checkpoint")
    data = bytearray(path.read_bytes())
    data[position] ^= 0x02
    path.chmod(0o600)
    path.write_bytes(data)

    layout = read_layout(path.parent)

    assert layout.snapshots == ()
    assert layout.problems[0].kind in ("epoch", "torn_tail")


@pytest.mark.parametrize("split_bytes", [100, 1 << 20])
def test_offsets_are_read_once_where_a_log_goes_back(tmp_path: Path, split_bytes: int) -> None:
    (path,) = log_of(tmp_path).glob("*.log")
    data = path.read_bytes()
    _, _, third, _, fifth, _ = read_chain(data).position.tolist()
    path.write_bytes(data[:fifth] + data[third:])

    rows = agreed_rows(read_layout(path.parent, split_bytes))

    assert [row.offset for row in rows if row.problem is None] == list(range(12))
    assert {row.problem for row in rows if row.problem is not None} == {"order"}
