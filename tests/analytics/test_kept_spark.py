from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from analytics.job import kept_spark
from analytics.job.kept_spark import (
    CLASSES,
    JAVA_OPTIONS,
    ONES_OWN,
    STARTER,
    archive_options,
    kept_home,
    kept_start,
)
from fault_injection import processes

SCRIPT = Path(__file__).parents[2] / "scripts/keep_spark.py"


_WORDS = ("java", "-cp", "x", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell")
COMMAND = subprocess.CompletedProcess([], 0, stdout="\0".join(_WORDS).encode())
"""What Spark says of its start."""


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ONES_OWN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(kept_spark, "spark_jars", lambda: tmp_path / "pyspark/jars")
    (tmp_path / "pyspark/jars").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")
    monkeypatch.setenv("JAVA_HOME", str(home))

    def says_nothing(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(subprocess, "run", says_nothing)
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


def test_where_nothing_can_be_kept_java_is_started_as_ever(java_home: Path) -> None:
    assert archive_options() == []
    assert start("-Xmx1g") == (None, None)
    assert not list((java_home.parent / "env").rglob("*spark-*"))


def test_the_first_start_keeps_its_command(
    java_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("spark-core_2.13.jar", "spark-mllib_2.13.jar"):
        (java_home.parent / "pyspark/jars" / name).touch()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: COMMAND)

    assert start("-Xmx1g") == (str(kept_home()), "-Xmx1g")

    home = kept_home()
    assert home is not None
    assert [path.name for path in (home / "jars").iterdir()] == ["spark-core_2.13.jar"]
    assert os.access(home / STARTER, os.X_OK)
    assert [path.name for path in home.parent.iterdir()] == [home.name]


def test_what_is_kept_is_used_by_the_java_that_it_is_of_only(
    java_home: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert archive_options() == []  # which Java would take for none at all, not even its own
    (kept / CLASSES).touch()
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


@pytest.mark.parametrize(
    "name",
    [
        "SPARK_CONF_DIR",
        "PYSPARK_SUBMIT_ARGS",
        "SPARK_SUBMIT_OPTS",
        "HADOOP_CONF_DIR",
        "YARN_CONF_DIR",
    ],
)
def test_who_sets_something_of_sparks_gets_sparks_own_start(
    kept: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/somewhere")

    assert archive_options() == []
    assert start("-Xmx1g") == (None, None)


def test_no_java_at_all_is_no_error_here(java_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home / "gone"))
    assert archive_options() == []


@pytest.mark.parametrize("name", ["spark-defaults.conf", "spark-env.sh", "java-opts"])
def test_settings_of_a_file_of_spark_are_a_start_of_sparks_own(
    kept: Path, tmp_path: Path, name: str
) -> None:
    conf = tmp_path / "pyspark/conf"
    conf.mkdir()
    (conf / f"{name}.template").write_text("")
    assert start("-Xmx1g") == (str(kept), "-Xmx1g")

    (conf / name).write_text("")

    assert archive_options() == []
    assert start("-Xmx1g") == (None, None)


def test_what_was_kept_in_another_way_is_not_used(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_spark, "FORMAT", kept_spark.FORMAT + 1)

    assert start("-Xmx1g") == (None, None)


@pytest.fixture
def keep_spark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("keep_spark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_that_somebody_has_set_gets_into_what_is_kept(
    java_home: Path, keep_spark: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, str]] = []

    def told(*_: object, env: dict[str, str], **__: object) -> subprocess.CompletedProcess[bytes]:
        seen.append(env)
        return COMMAND

    monkeypatch.setattr(subprocess, "run", told)
    monkeypatch.setattr(keep_spark, "_keep_classes", lambda path: seen.append(dict(os.environ)))
    for name in ONES_OWN:
        monkeypatch.setenv(name, "/somewhere")

    assert keep_spark.keep() == kept_home()

    assert len(seen) == 2
    assert not any("/somewhere" in variables.values() for variables in seen)


def test_nothing_is_kept_where_a_file_says_how_spark_starts(
    java_home: Path, tmp_path: Path, keep_spark: ModuleType
) -> None:
    (tmp_path / "pyspark/conf").mkdir()
    (tmp_path / "pyspark/conf/spark-env.sh").write_text("")

    with pytest.raises(keep_spark.ReplayInputError, match=r"spark-env\.sh is there"):
        keep_spark.keep()

    assert not (tmp_path / "env").exists()


@pytest.mark.process
def test_an_ended_keeper_leaves_no_process() -> None:
    instead = (
        "import subprocess, sys; sys.path.insert(0, sys.argv[1]);"
        "import keep_spark;"
        "from analytics.job.session import STARTED_BY, STARTER;"
        "own = {STARTED_BY: STARTER, 'PATH': '/bin'};"
        "child = subprocess.Popen(['sleep', '60'], env=own);"
        "keep_spark.keep = lambda: print(child.pid, flush=True) or child.wait();"
        "sys.exit(keep_spark.main())"
    )
    keeper = subprocess.Popen(
        [sys.executable, "-c", instead, str(SCRIPT.parent)],
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert keeper.stdout is not None
    child = processes.find(int(keeper.stdout.readline()))
    assert child is not None

    keeper.terminate()

    assert keeper.wait(30) == 128 + signal.SIGTERM
    keeper.stdout.close()
    assert processes.wait_ended([child], 30) == []
