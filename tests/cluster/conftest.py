from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, unless it is asked for: `-m soak`."""
    if "soak" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("soak") is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def cluster_root() -> Iterator[Path]:
    """A folder that the servers' user may enter; pytest's own are closed to others."""
    root = Path(tempfile.mkdtemp(prefix="jbodlab-test-"))
    root.chmod(0o755)
    yield root / "cluster"
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _open_file_limit() -> None:
    assert os.sysconf("SC_OPEN_MAX") >= 256
