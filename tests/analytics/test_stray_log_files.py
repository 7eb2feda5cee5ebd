"""Files in a log directory that no cluster wrote there: passed by, or a problem, never an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.read.layout import read_layout
from jbodlab.metadata.records.config_records import NoOpRecord
from tests.analytics.builders import LogBuilder
from tests.analytics.source_rows import read_all


@pytest.mark.parametrize(
    "name",
    [
        "99999999999999999999.log",
        "09223372036854775807.log",
        "99999999999999999999-0000000001.checkpoint",
        "00000000000000000001-9999999999.checkpoint",
        "0000000000000000000x.log",
        "notes.log",
        "00000000000000000000.log.swp",
    ],
)
def test_names_beyond_every_offset_are_left_alone(tmp_path: Path, name: str) -> None:
    log = LogBuilder(tmp_path)
    log.append(NoOpRecord())
    log.close()
    (log.directory / name).write_bytes(b"abc")

    layout = read_layout(log.directory)

    assert (layout.start_offset, layout.end_offset, layout.problems) == (0, 1, ())
    (rows,) = read_all(layout)
    assert rows.column("problem").to_pylist() == [None]


@pytest.mark.parametrize("target", ["nowhere", "00000000000000000001.log"])
def test_a_link_to_nothing_is_unreadable_and_the_rest_is_read(tmp_path: Path, target: str) -> None:
    log = LogBuilder(tmp_path)
    log.append(NoOpRecord())
    log.close()
    (log.directory / "00000000000000000001.log").symlink_to(target)

    layout = read_layout(log.directory)

    assert [(problem.file, problem.kind) for problem in layout.problems] == [
        ("00000000000000000001.log", "unreadable")
    ]
    assert (layout.start_offset, layout.end_offset) == (0, 1)
