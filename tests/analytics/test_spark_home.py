"""Where the Python workers of a session of this machine import PySpark from."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.job import spark_home
from jbodlab.cli import lab_state

pytestmark = pytest.mark.unit


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of PySpark; nothing is in the cache."""
    monkeypatch.setattr(lab_state, "cache_dirs", lambda *_: [tmp_path / "cache"])
    for name in ("jars", "bin", "python"):
        (tmp_path / "pyspark" / name).mkdir(parents=True)
    return tmp_path / "pyspark"


def test_a_home_has_all_of_a_package_but_its_archives_for_python(package: Path) -> None:
    spark_home.without_archive(package)
    (package / "conf").mkdir()

    home = spark_home.without_archive(package)

    assert {entry.name for entry in home.iterdir()} == {"jars", "bin", "conf"}
    assert (home / "jars").resolve() == package / "jars"


def test_where_nothing_can_be_kept_the_package_is_the_home(package: Path) -> None:
    (package.parent / "cache").touch()

    assert spark_home.without_archive(package) == package
