"""Fixtures of the tests of disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.disk.directory.log_dir import LogDir


@pytest.fixture(autouse=True)
def _threads_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the threads of all directories that a test has made."""
    made: list[LogDir] = []
    initialize = LogDir.__init__

    def noted(log_dir: LogDir, *arguments: Any, **options: Any) -> None:
        initialize(log_dir, *arguments, **options)
        made.append(log_dir)

    monkeypatch.setattr(LogDir, "__init__", noted)
    yield
    for log_dir in made:
        log_dir.stop()
