"""A Python that the servers' user cannot run, such as one below a home folder of root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster import Node
from lab.errors import LabError
from lab.machine import programs
from lab.machine.folders import make_folder, remove_folder
from lab.testing.clusters import Cluster

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has another user for the servers"),
]


@pytest.fixture
def closed_python() -> Iterator[Path]:
    folder = make_folder()
    (folder / "home").mkdir(mode=0o700)
    python = folder / "home" / "python3"
    python.symlink_to("/usr/bin/python3")
    yield python
    remove_folder(folder)


def test_the_fixture_says_what_helps_before_it_starts_a_server(
    closed_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "python", lambda: str(closed_python))
    started: list[Node] = []
    monkeypatch.setattr(Node, "start", started.append)

    with pytest.raises(LabError) as raised:
        Cluster(brokers=1)

    assert f"cannot run {closed_python} ([Errno 13] Permission denied" in str(raised.value)
    assert "make the virtual environment with a Python that every user may run" in str(raised.value)
    assert started == []
