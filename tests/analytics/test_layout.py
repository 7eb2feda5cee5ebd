from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analytics.errors import ReplayInputError
from analytics.read.layout import Layout, read_chain, read_layout
from analytics.read.metadata_dirs import find_metadata_dirs
from analytics.read.plain_rows import SourceRow
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, partition_record, register, uid
from tests.analytics.source_rows import column_rows, in_order, plain_rows

EACH_BYTE = pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
"""Every byte takes long; that 11 divides no size of a header lets each field be met."""


def small_log(root: Path, segment_bytes: int = 1 << 30) -> LogBuilder:
    """Six batches of two records, offsets 0 to 11."""
    log = LogBuilder(root, segment_bytes=segment_bytes)
    for number in range(6):
        log.append(
            TopicRecord(name=f"t{number}", topic_id=uid(100 + number)),
            partition_record(uid(100 + number)),
        )
    return log


def rows_of(layout: Layout) -> list[SourceRow]:
    """Return the rows of a log as tasks give them, which are those of the plain decoder."""
    rows = column_rows(layout)
    assert in_order(rows) == in_order(plain_rows(layout))
    return rows


def problems_of(layout: Layout) -> list[SourceRow]:
    return [row for row in rows_of(layout) if row.problem is not None]


def test_the_log_is_found_in_its_directory_and_in_the_one_around_it(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    log.close()

    for named in (tmp_path, log.directory):
        assert find_metadata_dirs(str(named)) == (str(log.directory),)


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_an_input_without_a_log_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")

    with pytest.raises(ReplayInputError, match=name):
        find_metadata_dirs(str(tmp_path / name))


def test_a_log_that_begins_at_0_is_replayed_from_there(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    log.snapshot()
    log.append(NoOpRecord())
    log.close()

    layout = read_layout(log.directory)

    assert (layout.start_offset, layout.end_offset, layout.replay_from) == (0, 13, 0)
    assert layout.sync_offsets == (12,)
    assert layout.problems == ()


def test_a_log_that_begins_later_is_replayed_from_the_oldest_snapshot_in_it(
    tmp_path: Path,
) -> None:
    log = small_log(tmp_path, segment_bytes=1)
    log.snapshot()
    log.append(register(1, [uid(1)]))
    log.snapshot()
    log.append(NoOpRecord())
    log.log.delete_segments_below(8)
    log.close()

    layout = read_layout(log.directory)

    assert (layout.start_offset, layout.replay_from, layout.sync_offsets) == (8, 12, (12, 13))
    assert layout.problems == ()


def test_a_log_that_begins_later_without_a_snapshot_misses_its_start(tmp_path: Path) -> None:
    log = small_log(tmp_path, segment_bytes=1)
    log.log.delete_segments_below(8)
    log.close()

    layout = read_layout(log.directory)

    assert layout.replay_from == 8
    assert [(p.kind, p.offset) for p in layout.problems] == [("gap", 0)]


def test_a_snapshot_ahead_of_the_log_leaves_a_gap(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    log.snapshot()
    log.close()
    (path,) = log.directory.glob("*.log")
    data = path.read_bytes()
    batches = read_chain(data)
    path.write_bytes(data[: int(batches.position[batches.base_offset == 8][0])])

    layout = read_layout(log.directory)

    assert [(p.kind, p.offset) for p in layout.problems] == [("gap", 8)]
    assert layout.end_offset == 12


def formatted(log: LogBuilder) -> None:
    """Leave of a log the snapshot that a node is formatted with."""
    log.snapshot(replace(log.loader.image, epoch=0))
    log.close()
    for path in log.directory.glob("*.log"):
        path.unlink()


def snapshots_alone(root: Path, segments: dict[str, bytes]) -> Layout:
    """Return the layout of snapshots that end at 0, 12 and 13, and of what is given as segments."""
    log = LogBuilder(root)
    formatted(log)
    log = small_log(root)
    log.snapshot()
    log.append(NoOpRecord())
    newest = log.snapshot()
    log.close()
    for path in newest.parent.glob("*.log"):
        path.unlink()
    for name, data in segments.items():
        (newest.parent / name).write_bytes(data)
    return read_layout(newest.parent)


@pytest.mark.parametrize(
    "segments",
    [
        {},
        {f"{0:020}.log": b""},
        {f"{12:020}.log": b""},
        {f"{0:020}.log": b"", f"{12:020}.log": b""},
        {f"{0:020}.log": b"no batch"},
    ],
    ids=["none", "empty", "begun-behind-another", "several-empty", "rubbish"],
)
def test_snapshots_without_a_log_are_one_gap_and_the_newest_is_what_is_known(
    tmp_path: Path, segments: dict[str, bytes]
) -> None:
    layout = snapshots_alone(tmp_path, segments)

    assert (layout.start_offset, layout.log_end_offset, layout.end_offset) == (None, 0, 13)
    assert (layout.replay_from, layout.sync_offsets) == (13, (13,))
    (gap,) = layout.problems
    assert (gap.kind, gap.offset, gap.file) == ("gap", 0, None)
    assert gap.message == (
        f"offsets 0 to 12 are missing: the log has no record, {layout.snapshots[-1].name} is known"
    )


def test_a_log_that_is_begun_anew_behind_its_newest_snapshot_misses_nothing(
    tmp_path: Path,
) -> None:
    layout = snapshots_alone(tmp_path, {f"{13:020}.log": b""})

    assert layout.problems == ()
    assert (layout.replay_from, layout.sync_offsets, layout.end_offset) == (13, (13,), 13)


def test_a_directory_that_was_only_formatted_misses_nothing(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    formatted(log)

    layout = read_layout(log.directory)

    assert ([snapshot.end_offset for snapshot in layout.snapshots], layout.problems) == ([0], ())


def test_a_missing_segment_is_a_gap(tmp_path: Path) -> None:
    log = small_log(tmp_path, segment_bytes=1)
    log.close()
    (log.directory / "00000000000000000004.log").unlink()

    found = problems_of(read_layout(log.directory))

    assert [(row.problem, row.offset, row.message) for row in found] == [
        ("gap", 4, "offsets 4 to 5 are missing")
    ]
    assert found[0].file == "00000000000000000006.log"


@pytest.mark.parametrize("cut", [1, 70, 150])
def test_a_snapshot_that_is_cut_is_not_believed(tmp_path: Path, cut: int) -> None:
    log = small_log(tmp_path)
    path = log.snapshot()
    log.close()
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-cut])

    layout = read_layout(log.directory)

    assert layout.snapshots == ()
    assert [problem.file for problem in layout.problems] == [path.name]
    assert all(split.snapshot is None for split in layout.splits)


def test_unfinished_and_deleted_files_are_left_alone(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    log.close()
    for name in (
        "00000000000000000012-0000000001.checkpoint.part",
        "00000000000000000012-0000000001.checkpoint.deleted",
        "00000000000000000012.log.deleted",
        "00000000000000000012.snapshot",
    ):
        (log.directory / name).write_bytes(b"rubbish")

    assert read_layout(log.directory).problems == ()


def test_small_splits_give_the_same_rows(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    log.snapshot()
    log.close()

    whole, cut = read_layout(log.directory), read_layout(log.directory, split_bytes=100)

    assert len(cut.splits) > len(whole.splits) == 2
    assert in_order(rows_of(cut)) == in_order(rows_of(whole))
    assert (cut.start_offset, cut.end_offset) == (whole.start_offset, whole.end_offset)


@pytest.mark.parametrize("split_bytes", [100, 1 << 20])
@EACH_BYTE
def test_every_cut_of_a_log_gives_its_first_records_and_says_what_is_missing(
    tmp_path: Path, split_bytes: int, step: int
) -> None:
    log = small_log(tmp_path)
    log.close()
    path = log.directory / "00000000000000000000.log"
    data = path.read_bytes()
    whole = sorted(rows_of(read_layout(log.directory)), key=offset_of)

    boundaries = {0, *(row.position for row in whole)}
    for size in sorted({*range(0, len(data), step), *boundaries}):  # type: ignore[type-var]
        path.write_bytes(data[:size])
        rows = rows_of(read_layout(log.directory, split_bytes))
        records = sorted((row for row in rows if row.problem is None), key=offset_of)
        assert records == whole[: len(records)]
        kinds = [row.problem for row in rows if row.problem is not None]
        assert kinds == ([] if size in boundaries else ["torn_tail"])


@pytest.mark.parametrize(("split_bytes", "flipped"), [(100, 0x41), (1 << 20, 0x01)])
@EACH_BYTE
def test_every_changed_byte_is_noticed_and_gives_no_wrong_record(
    tmp_path: Path, split_bytes: int, flipped: int, step: int
) -> None:
    log = small_log(tmp_path)
    log.close()
    path = log.directory / "00000000000000000000.log"
    data = path.read_bytes()
    whole = {row.offset: row for row in rows_of(read_layout(log.directory))}

    for position in range(0, len(data), step):
        damaged = bytearray(data)
        damaged[position] ^= flipped
        path.write_bytes(damaged)
        rows = rows_of(read_layout(log.directory, split_bytes))
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
    assert problems_of(read_layout(log.directory)) == []
    log.epoch = 7
    log.append(NoOpRecord())
    log.close()

    (problem,) = problems_of(read_layout(log.directory))

    assert (problem.problem, problem.offset) == ("epoch", 3)
    assert problem.message == "epoch 7 behind epoch 2 without a change of the leader"


def test_a_snapshot_whose_batches_have_another_epoch_is_not_believed(tmp_path: Path) -> None:
    log = small_log(tmp_path)
    log.snapshot()
    log.close()
    (path,) = log.directory.glob("*.checkpoint")
    data = bytearray(path.read_bytes())
    for position in range(12, 16):
        damaged = data.copy()
        damaged[position] ^= 0x02
        path.chmod(0o600)
        path.write_bytes(damaged)
        layout = read_layout(log.directory)
        assert layout.snapshots == ()
        assert [problem.kind for problem in layout.problems][:1] in (["epoch"], ["torn_tail"])


@pytest.mark.parametrize("split_bytes", [100, 1 << 20])
def test_offsets_are_read_once_where_a_log_goes_back(tmp_path: Path, split_bytes: int) -> None:
    log = small_log(tmp_path)
    log.close()
    path = log.directory / "00000000000000000000.log"
    data = path.read_bytes()
    positions = sorted({row.position for row in rows_of(read_layout(log.directory))})
    # Batches 0 to 3, then 2 and 3 once more, then 4 and 5.
    path.write_bytes(
        data[: positions[4]] + data[positions[2] : positions[4]] + data[positions[4] :]
    )

    rows = rows_of(read_layout(log.directory, split_bytes))

    records = [row.offset for row in rows if row.problem is None]
    assert sorted(records) == sorted(set(records)) == list(range(12))
    assert {row.problem for row in rows if row.problem is not None} == {"order"}


def test_several_nodes_are_found_in_the_folder_around_them(tmp_path: Path) -> None:
    for node in (1, 2):
        small_log(tmp_path / f"node-{node}").close()
    (tmp_path / "node-3").mkdir()

    assert find_metadata_dirs(str(tmp_path)) == tuple(
        str(tmp_path / f"node-{node}" / "__cluster_metadata-0") for node in (1, 2)
    )


def offset_of(row: SourceRow) -> int:
    assert row.offset is not None
    return row.offset
