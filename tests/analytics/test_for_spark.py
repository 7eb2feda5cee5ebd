"""The stories of the page for users of Spark run as they stand, and tell what a replay does."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.analytics.shared import FIXTURES

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "for-spark.md"


def test_the_stories_tell_what_a_replay_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # the session has begun already
    log = tmp_path / "log"
    shutil.copytree(FIXTURES / "4.3.1-disks" / "controller" / "__cluster_metadata-0", log)
    known: dict[str, Any] = {"LOG": str(log), "WORK": str(tmp_path)}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        exec(compile(code, str(PAGE), "exec"), known)

    columns = ("topic_id", "partition", "from_offset", "to_offset")
    outages, kept = (
        sorted(map(tuple, rows.select(*columns).collect()))
        for rows in (
            known["outages"].where("kind = 'leaderless'"),
            spark.read.parquet(known["OUTAGES"]),
        )
    )
    assert outages
    assert kept == outages
    assert sum(row["count"] for row in known["losses"].collect()) == known["lost"].count()
