"""`jbodlab demo` as a new user runs it, and what Ctrl-C leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.harness import script, wait_for

pytestmark = pytest.mark.cluster


def environment(state: Path) -> dict[str, str]:
    """A state folder of its own, so that a cluster that runs on this machine is left alone."""
    return {**os.environ, "JBODLAB_STATE_DIR": str(state)}


def mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[1].startswith(str(folder))]


def processes_naming(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in command:
                found.append(command)
    return found


@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_demo_loses_nothing_and_leaves_nothing_running(cluster_root: Path) -> None:
    state, output = cluster_root / "state", cluster_root / "output"
    cluster_root.mkdir(mode=0o755)

    done = subprocess.run(
        [*script("jbodlab"), "demo", "--results", str(output)],
        env=environment(state),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("fault injected", "directory offline at the broker", "new leader elected"):
        assert line in done.stdout
    result = json.loads(next(output.rglob("result.json")).read_text())
    metrics = {name: found["value"] for name, found in result["metrics"].items()}
    assert result["verdict"] == "PASS"
    for field in ("lost", "unread", "duplicated", "reordered"):
        assert metrics[f"writers.{field}"] == 0
    # The members of the group live on, so nobody waits for anybody.
    assert metrics["consumer-1.rebalances"] == metrics["consumer-2.rebalances"] == 0
    assert metrics["writers.acked"] > 0
    assert (output / "report.html").read_text().startswith("<!DOCTYPE html>")
    tables = {path.parent.parent.name for path in output.rglob("*.parquet")}
    assert {"records", "brokers", "log_dirs", "topics", "partitions", "partition_history"} <= tables
    assert not processes_naming(state)
    assert not mounts_below(state)


@pytest.mark.parametrize("after", ["Cluster:", "every broker answers", "fault injected"])
def test_interrupted_demo_leaves_no_process_and_no_mount(cluster_root: Path, after: str) -> None:
    state, output = cluster_root / "state", cluster_root / "output"
    cluster_root.mkdir(mode=0o755)
    log = cluster_root / "demo.log"
    with log.open("wb") as out:
        demo = subprocess.Popen(
            [*script("jbodlab"), "demo", "--no-spark", "--results", str(output)],
            env=environment(state),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        wait_for(f"the line {after!r}", lambda: after in log.read_text(), 60)
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) != 0
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGTERM)
            demo.wait(60)
    assert not processes_naming(state)
    assert not mounts_below(state)
