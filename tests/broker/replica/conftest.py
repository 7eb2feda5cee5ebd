"""A cluster whose broker 1 leads, for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.stage import Stage


@pytest.fixture
async def cluster(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as cluster:
        await cluster.begin(1, 2, 3, **{"min_insync_replicas": "2", **options})
        yield cluster
