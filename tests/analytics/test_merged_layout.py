"""Copies of one metadata log, put together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from analytics.read.layout import read_layout
from analytics.read.merged_layout import Piece, Run, merged_layout, put_together
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, uid
from tests.analytics.source_rows import column_rows


def run(copy: int, first: int, behind: int, epoch: int = 1) -> Run:
    return Run(
        copy=copy,
        file=f"{first:020}.log",
        start=first * 100,
        end=behind * 100,
        first=first,
        behind=behind,
        epoch=epoch,
        begins_epoch=False,
    )


def pieces(*runs: Run) -> list[tuple[int, int, int]]:
    return [(one.run.copy, one.first, one.behind) for one in put_together(runs)]


def test_the_copy_that_goes_on_longest_is_taken() -> None:
    assert pieces(run(0, 0, 10), run(1, 0, 30), run(1, 30, 40)) == [(1, 0, 30), (1, 30, 40)]
    assert pieces(run(0, 0, 10), run(1, 5, 30)) == [(0, 0, 10), (1, 10, 30)]


def test_what_one_copy_has_damaged_comes_from_another() -> None:
    assert pieces(run(0, 0, 10), run(0, 12, 40), run(1, 0, 30)) == [(1, 0, 30), (0, 30, 40)]


def test_of_two_epochs_at_one_offset_the_later_one_is_right() -> None:
    stale = run(0, 0, 10, epoch=1), run(0, 10, 30, epoch=1)
    true = run(1, 0, 12, epoch=1), run(1, 12, 20, epoch=3)

    assert pieces(*stale, *true) == [(1, 0, 12), (1, 12, 20)]


def test_epochs_never_go_back() -> None:
    # Records that the first copy has behind offset 12 were cut off by the others.
    assert pieces(run(0, 0, 50, epoch=1), run(1, 12, 20, epoch=3)) == [(0, 0, 12), (1, 12, 20)]


def test_where_no_copy_has_an_offset_there_is_a_gap() -> None:
    assert pieces(run(0, 0, 10), run(1, 15, 20)) == [(0, 0, 10), (1, 15, 20)]
    assert put_together([]) == []


def test_a_run_that_others_hold_altogether_is_not_taken() -> None:
    (only,) = put_together([run(0, 3, 7), run(1, 0, 10)])
    assert only == Piece(run=run(1, 0, 10), first=0, behind=10)


def copies(
    root: Path, segments: Sequence[int] = (300, 900), batches: int = 60
) -> tuple[list[Path], int]:
    """Write one log several times, into segments of different sizes."""
    made = []
    end = 0
    for number, size in enumerate(segments):
        log = LogBuilder(root / f"node{number}", segment_bytes=size)
        for index in range(batches):
            log.append(TopicRecord(name=f"t{index}", topic_id=uid(index + 1)), NoOpRecord())  # type: ignore[arg-type]
        end = log.log.end_offset
        log.close()
        made.append(log.directory)
    return made, end


def offsets(folders: Sequence[Path]) -> list[int]:
    layout = merged_layout([str(folder) for folder in folders])
    assert layout.problems == ()
    rows = column_rows(layout)
    assert [row.message for row in rows if row.problem is not None] == []
    return sorted(row.offset for row in rows if not row.snapshot)  # type: ignore[type-var]


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def test_copies_together_hold_what_each_of_them_has_lost(tmp_path: Path) -> None:
    (one, other), end = copies(tmp_path)
    first = segments_of(one)
    first[-1].unlink()
    first[len(first) // 2].write_bytes(b"\0" * first[len(first) // 2].stat().st_size)
    second = segments_of(other)
    second[0].unlink()
    last = second[-1].read_bytes()
    second[-1].write_bytes(last[:-3])

    with_tail, _ = copies(tmp_path / "third", (100_000,))
    assert offsets([one, other, with_tail[0]]) == list(range(end))
    lost = merged_layout([str(one), str(other)])
    assert (lost.start_offset, lost.end_offset) == (0, end - 2)  # the last batch is in neither


def test_a_batch_with_a_wrong_crc_is_taken_from_the_other_copy(tmp_path: Path) -> None:
    (one, other), end = copies(tmp_path, (100_000, 700))
    (segment,) = segments_of(one)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)

    assert offsets([one, other]) == offsets([other, one]) == list(range(end))


@pytest.mark.parametrize("lag", [1, 20])
def test_a_snapshot_is_taken_from_the_copy_that_has_it(tmp_path: Path, lag: int) -> None:
    (one, other), end = copies(tmp_path, (300, 300), batches=40)
    for path in segments_of(one)[-lag:]:
        path.unlink()
    broken = other / "00000000000000000010-0000000001.checkpoint"
    broken.write_bytes(b"no snapshot")

    layout = merged_layout([str(one), str(other)])

    assert layout.end_offset == end
    assert [problem.file for problem in layout.problems] == [broken.name]
    assert layout.size_bytes == sum(split.end - split.start for split in layout.splits)
    alone = read_layout(other)
    assert (layout.start_offset, layout.end_offset) == (alone.start_offset, alone.end_offset)


def test_copies_of_snapshots_without_a_log_are_one_gap(tmp_path: Path) -> None:
    folders = []
    for node in ("a", "b", "c"):
        log = LogBuilder(tmp_path / node)
        log.append(NoOpRecord())
        log.snapshot()
        if node != "a":
            log.append(TopicRecord(name="t", topic_id=uid(1)))
            newest = log.snapshot()
        log.close()
        for path in log.directory.glob("*.log"):
            path.unlink()
        folders.append(str(log.directory))

    layout = merged_layout(folders)

    assert [(problem.kind, problem.offset) for problem in layout.problems] == [("gap", 0)]
    assert newest.name in layout.problems[0].message
    assert (layout.replay_from, layout.sync_offsets, layout.end_offset) == (2, (2,), 2)
