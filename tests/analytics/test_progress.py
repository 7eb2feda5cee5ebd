from __future__ import annotations

import pytest

from analytics.job.progress import progress_line


@pytest.mark.parametrize(
    ("done", "total", "line"),
    [
        (0, 0, "reading the log (7 s)"),
        (0, 4, "reading the log [........................] 0/4 tasks (7 s)"),
        (3, 4, "reading the log [##################......] 3/4 tasks (7 s)"),
        (4, 4, "reading the log [########################] 4/4 tasks (7 s)"),
    ],
)
def test_a_line_tells_stage_tasks_and_time(done: int, total: int, line: str) -> None:
    assert progress_line("reading the log", done, total, 7.4) == line
