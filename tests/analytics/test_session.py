"""A session leaves the process that starts it as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics.job import class_archive, session
from analytics.job.session import start_session
from tests.analytics.commands import python

DEADLINE_S = 30
WAITS = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


@pytest.mark.process
def test_an_interrupt_ends_the_processes_of_a_start_and_no_other_child(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "require_java", lambda: None)
    children = [subprocess.Popen(WAITS, stdout=subprocess.PIPE)]

    def interrupted(_: object) -> SparkSession:
        children.append(subprocess.Popen(WAITS, stdout=subprocess.PIPE))
        raise KeyboardInterrupt

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", interrupted)

    with pytest.raises(KeyboardInterrupt):
        start_session(0)

    other, own = children
    try:
        assert own.wait(DEADLINE_S) == -9
        assert other.poll() is None
    finally:
        for child in children:
            child.kill()
            child.communicate()


@pytest.mark.spark
def test_starting_a_session_leaves_the_environment_as_it_was(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    before = dict(os.environ)

    start_session(0)

    assert dict(os.environ) == before


@pytest.mark.spark
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a machine another name")
def test_a_session_starts_on_a_machine_whose_name_has_no_address() -> None:
    code = "from analytics.job.session import start_session; start_session(0).stop()"
    unshare = ["unshare", "--uts"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine gives no process a name of its own")
    named = [*unshare, "sh", "-c", 'hostname no-such-machine && exec "$@"', "sh"]

    done = python("-c", code, behind=named)

    assert done.returncode == 0, done.stderr


def test_the_code_cache_of_a_small_log_has_room_for_the_code_of_all_plans(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(class_archive, "options", lambda jars: [f"-Darchive={jars}"])
    settings = session._local_settings(0, Path("jars"))
    options = settings["spark.driver.extraJavaOptions"].split()

    assert {"-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m"} <= set(options)
    assert "-Darchive=jars" in options


WORKERS = """
import pyarrow as pa, pyspark
from analytics.job import session
from analytics.job.session import start_session

def ask(_):
    import pyspark
    from analytics.job import session
    yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__, session.__file__]})

found = start_session(0).range(1, 2).mapInArrow(ask, "file string").toArrow()
assert set(found.column("file").to_pylist()) == {pyspark.__file__, session.__file__}, found
"""


@pytest.mark.spark
def test_workers_import_pyspark_and_our_sources_from_where_the_driver_has_them_from() -> None:
    done = python("-c", WORKERS)

    assert done.returncode == 0, done.stderr
