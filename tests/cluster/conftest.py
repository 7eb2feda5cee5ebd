from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


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
