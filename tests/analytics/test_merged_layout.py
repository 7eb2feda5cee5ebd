"""Copies of one metadata log, put together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from analytics.read.layout import read_layout
from analytics.read.merged_layout import Run, merged_layout, put_together
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, uid
from tests.analytics.cases import cases
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


PIECES = """
the copy that goes on longest is taken              | a0-10 b0-30 b30-40         | b0-30 b30-40
a later copy goes on where an earlier one ends      | a0-10 b5-30                | a0-10 b10-30
what one copy has damaged comes from another        | a0-10 a12-40 b0-30         | b0-30 a30-40
of two epochs at one offset the later one is right  | a0-10 a10-30 b0-12 b12-20@3 | b0-12 b12-20
epochs never go back, records behind 12 were cut off | a0-50 b12-20@3            | a0-12 b12-20
where no copy has an offset there is a gap          | a0-10 b15-20               | a0-10 b15-20
a run that others hold altogether is not taken      | a3-7 b0-10                 | b0-10
without a copy there is nothing                     |                            |
"""
"""Runs of copies a and b with their offsets and, if it is not 1, their epoch; and the pieces."""


@pytest.mark.parametrize(("runs", "pieces"), cases(PIECES))
def test_copies_are_put_together_from_pieces(runs: str, pieces: str) -> None:
    given = re.findall(r"([ab])(\d+)-(\d+)(?:@(\d))?", runs)

    found = put_together(
        [
            run("ab".index(copy), int(first), int(end), int(at or 1))
            for copy, first, end, at in given
        ]
    )

    told = " ".join(f"{'ab'[one.run.copy]}{one.first}-{one.behind}" for one in found)
    assert told == pieces


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


def test_copies_together_hold_what_each_of_them_has_lost(tmp_path: Path) -> None:
    (one, other), end = copies(tmp_path)
    first = sorted(one.glob("*.log"))
    first[-1].unlink()
    first[len(first) // 2].write_bytes(b"\0" * first[len(first) // 2].stat().st_size)
    second = sorted(other.glob("*.log"))
    second[0].unlink()
    last = second[-1].read_bytes()
    second[-1].write_bytes(last[:-3])

    with_tail, _ = copies(tmp_path / "third", (100_000,))
    assert offsets([one, other, with_tail[0]]) == list(range(end))
    lost = merged_layout([str(one), str(other)])
    assert (lost.start_offset, lost.end_offset) == (0, end - 2)  # the last batch is in neither


def test_a_batch_with_a_wrong_crc_is_taken_from_the_other_copy(tmp_path: Path) -> None:
    (one, other), end = copies(tmp_path, (100_000, 700))
    (segment,) = sorted(one.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)

    assert offsets([one, other]) == offsets([other, one]) == list(range(end))


@pytest.mark.parametrize("lag", [1, 20])
def test_a_snapshot_is_taken_from_the_copy_that_has_it(tmp_path: Path, lag: int) -> None:
    (one, other), end = copies(tmp_path, (300, 300), batches=40)
    for path in sorted(one.glob("*.log"))[-lag:]:
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
