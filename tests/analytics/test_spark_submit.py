"""The packaged replay on a standalone cluster; nothing is shared but a store that speaks S3."""

from __future__ import annotations

import re
import runpy
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyarrow import fs

from analytics.job.output import MANIFEST
from analytics.tables.catalog import TABLES
from lab.machine.waiting import wait_for
from tests.analytics.commands import ROOT
from tests.analytics.s3_server import BUCKET, S3Server
from tests.analytics.s3a_jars import s3a_jars
from tests.analytics.shared import Replayed
from tests.analytics.standalone_spark import StandaloneSpark, kill_session, standalone_spark

DEADLINE_S = 500

# A master, workers, a driver and a store beside everything else: five minutes of two cores.
pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    with standalone_spark(tmp_path_factory.mktemp("spark") / "nodes", workers=2) as running:
        yield running


def upload(store: S3Server, folder: Path, key: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            name = f"{BUCKET}/{key}/{path.relative_to(folder)}"
            with store.files.open_output_stream(name) as stream:
                stream.write(path.read_bytes())


def tables_of(files: object, root: str) -> dict[str, list[str]]:
    """Return the rows of every table as texts, whatever files they lie in."""
    found = {}
    for table in TABLES:
        rows: pa.Table = pq.read_table(f"{root}/{table.name}", filesystem=files)
        kept = [name for name in rows.column_names if name != "source"]
        found[table.name] = sorted(map(str, rows.select(kept).to_pylist()))
    return found


def test_the_tables_are_whole_although_workers_are_lost_in_the_middle_of_the_run(
    s3: S3Server, cluster: StandaloneSpark, disks: Replayed, tmp_path: Path
) -> None:
    upload(s3, disks.folder / "controller", "in/controller")
    package = runpy.run_path(str(ROOT / "scripts" / "package_replay.py"))["package"]
    starter, archive = package(tmp_path / "dist")
    bucket = f"s3a://{BUCKET}"
    arguments = ["--input", f"{bucket}/in/*", "--results", f"{bucket}/out"]

    run = cluster.submit(starter, archive, arguments, s3.variables, s3a_jars(), s3.hadoop_settings)
    try:
        for table in ("records", "outages"):
            wait_for(table, partial(is_written_or_over, s3, table, run), DEADLINE_S)
            assert run.poll() is None, run.communicate()
            cluster.kill_worker()
            cluster.start_worker()
        out, errors = run.communicate(timeout=DEADLINE_S)
    finally:
        kill_session(run)
        run.communicate()

    assert run.returncode == 0, out[-2000:] + errors[-4000:]
    assert without_inputs(disks.printed) in without_inputs(out)
    assert "INFO" not in out
    assert tables_of(s3.files, f"{BUCKET}/out") == tables_of(None, str(disks.output))
    left = [one.path for one in files_below(s3, "out")]
    assert not [path for path in left if ".jbod-replay" in path or MANIFEST in path]
    # Not a row came by way of a folder that driver and workers have in common.
    assert list((cluster.folder / "driver").iterdir()) == []


def without_inputs(printed: str) -> str:
    """Return a report without where the log lies, which commands in it name."""
    return re.sub(r"--input '[^']*'", "", printed.partition("Tables\n")[0])


def files_below(store: S3Server, folder: str) -> list[fs.FileInfo]:
    selector = fs.FileSelector(f"{BUCKET}/{folder}", recursive=True, allow_not_found=True)
    return list(store.files.get_file_info(selector))


def is_written_or_over(store: S3Server, table: str, run: subprocess.Popen[str]) -> bool:
    """Return whether a task has written rows of a table, wherever they are, or the run is over."""
    paths = [one.path for one in files_below(store, "out") if f"/{table}/" in one.path]
    return any(path.endswith(".parquet") for path in paths) or run.poll() is not None
