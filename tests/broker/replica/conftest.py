"""A cluster whose broker 1 leads, for the tests of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.replica.partition.test_partition_leading import Cluster, leading


@pytest.fixture
async def cluster(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Cluster]:
    async with leading(tmp_path, **options) as cluster:
        yield cluster
