"""The packaged replay, on executors of their own that know nothing but the archive."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped] # it comes without types
import pyspark
import pytest

REPOSITORY = Path(__file__).parent.parent.parent
LOG = REPOSITORY / "tests/fixtures/kafka-metadata-logs/4.3.1-disks"


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_packaged_replay_runs_on_a_cluster(tmp_path: Path) -> None:
    package = runpy.run_path(str(REPOSITORY / "scripts" / "package_replay.py"))["package"]
    starter, archive = package(tmp_path / "dist")
    segments = next(LOG.rglob("*.log")).parent
    # Not the installed copy of the project: only what a node of a cluster would have.
    bare = tmp_path / "libraries"
    bare.mkdir()
    ours = ("analytics", "jbodlab", "broker", "controller", "storage_tool", "admin_tool", "lab")
    for entry in Path(pyspark.__file__).parent.parent.iterdir():
        if entry.name not in (*ours, "fault_injection") and not entry.name.startswith("jbodlab-"):
            (bare / entry.name).symlink_to(entry)

    done = subprocess.run(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", "local-cluster[2,1,1024]", "--py-files", str(archive)),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
            *("--conf", f"spark.executorEnv.PYTHONPATH={bare}"),
            *(str(starter), "--input", segments.as_uri(), "--output", (tmp_path / "out").as_uri()),
        ],
        env={
            **{
                name: os.environ[name]
                for name in ("PATH", "HOME", "JAVA_HOME")
                if name in os.environ
            },
            "PYTHONPATH": str(bare),
            "PYSPARK_PYTHON": str(Path(sys.executable).resolve()),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Problems     none" in done.stdout
    records = pq.ParquetDataset(tmp_path / "out" / "records").read(columns=["offset"])
    assert f"{records.num_rows} records" in done.stdout
    assert records.num_rows > 100
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
