from __future__ import annotations

import sys
from pathlib import Path

import pytest

from analytics.job.class_archive import archive_options, archive_path


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(home))
    return home


def test_without_an_archive_java_is_started_as_ever(java_home: Path) -> None:
    assert archive_options() == []


def test_an_archive_is_used_by_the_java_that_made_it_only(
    java_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive_path()
    assert path is not None
    path.parent.mkdir(parents=True)
    path.write_bytes(b"classes")
    assert archive_options()[-1] == f"-XX:SharedArchiveFile={path}"

    other = java_home.with_name("other")
    (other / "bin").mkdir(parents=True)
    (other / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(other))
    assert archive_options() == []


def test_no_java_at_all_is_no_error_here(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home / "gone"))
    assert archive_options() == []
