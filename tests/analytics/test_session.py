"""A session leaves the process that starts it as it was."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from analytics.job.session import start_session

pytestmark = pytest.mark.spark


def test_starting_a_session_leaves_the_environment_as_it_was(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    before = dict(os.environ)

    start_session(0)

    assert dict(os.environ) == before
