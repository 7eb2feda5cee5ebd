from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from analytics.job.kept_spark import (
    CLASSES,
    JAVA_OPTIONS,
    STARTER,
    archive_options,
    kept_home,
    kept_start,
)


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DIST_CLASSPATH", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


@pytest.fixture
def kept(java_home: Path) -> Path:
    home = kept_home()
    assert home is not None
    (home / STARTER).parent.mkdir(parents=True)
    (home / STARTER).write_text("")
    return home


def start(*options: str) -> tuple[str | None, str | None]:
    """Return the home and the options that a start would have."""
    with kept_start(options):
        found = (os.environ.get("SPARK_HOME"), os.environ.get(JAVA_OPTIONS))
    assert "SPARK_HOME" not in os.environ
    return found


def test_where_nothing_is_kept_java_is_started_as_ever(java_home: Path) -> None:
    assert archive_options() == []
    assert start("-Xmx1g") == (None, None)


def test_what_is_kept_is_used_by_the_java_that_it_is_of_only(
    java_home: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive_options()[-1] == f"-XX:SharedArchiveFile={kept / CLASSES}"
    assert start("-Xmx1g", "-Da=b") == (str(kept), "-Xmx1g -Da=b")

    other = java_home.with_name("other")
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert archive_options() == []
    assert start("-Xmx1g") == (None, None)


def test_options_that_a_shell_would_split_go_the_long_way(kept: Path) -> None:
    assert start("-Dfile=/a b") == (None, None)


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_who_sets_something_of_sparks_gets_sparks_own_start(
    kept: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/somewhere")

    assert archive_options() == []
    assert start("-Xmx1g") == (None, None)


def test_no_java_at_all_is_no_error_here(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home / "gone"))
    assert archive_options() == []
