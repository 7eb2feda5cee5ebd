"""When Java maps the archive of Spark's classes, and when it writes one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analytics.job import class_archive
from jbodlab.cli import lab_state

pytestmark = pytest.mark.unit


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jars of Spark; nothing is in the cache."""
    monkeypatch.setattr(lab_state, "cache_dirs", lambda *_: [tmp_path / "cache"])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(0o755)
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars"


def archive_of(jars: Path, option: str) -> Path:
    """Return the archive that an option names; no other option names a file."""
    named, *_ = class_archive.options(jars)
    found, _, archive = named.partition("=")
    assert found == f"-XX:{option}"
    return Path(archive)


def test_what_one_session_has_written_the_next_ones_map(jars: Path) -> None:
    written = archive_of(jars, "ArchiveClassesAtExit")
    written.write_text("classes")

    assert archive_of(jars, "SharedArchiveFile") == written


def test_an_archive_that_java_has_not_finished_is_written_again(jars: Path) -> None:
    archive_of(jars, "ArchiveClassesAtExit").write_bytes(bytes(8))

    archive_of(jars, "ArchiveClassesAtExit")


def test_another_java_or_other_jars_have_another_archive_and_the_former_goes(jars: Path) -> None:
    for changed in (jars, jars.parent / "bin" / "java"):
        former = archive_of(jars, "ArchiveClassesAtExit")
        former.write_text("classes")
        os.utime(changed, ns=(0, 0))

        assert archive_of(jars, "ArchiveClassesAtExit") != former
        assert not former.exists()


def test_where_nothing_can_be_kept_java_writes_nothing(jars: Path) -> None:
    (jars.parent / "cache").touch()

    assert class_archive.options(jars) == []
