"""Cost of a replay by Spark: a small log, a large one by one core and by two, many clusters.

Each is the whole command, from its start to its end. Beside it stands what its driver took, the
process of Python that plans and asks: that must not grow with a log. The virtual machine of Java
plans and runs the tasks in one process here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.decode import Run, measured
from bench.metadata_log_generator import generate
from tests.analytics.shared import FIXTURES

CLUSTERS = 200
DEADLINE_S = 3600.0
_SMALL = FIXTURES / "4.3.1-disks"
_SMALL_RECORDS = 362


@dataclass(slots=True, kw_only=True)
class SparkRun(Run):
    """One replay."""

    driver_cpu_s: float = 0.0
    """Processor seconds of the driver's Python, user and system."""
    driver_mb: float = 0.0
    """Largest memory of the driver's Python, MB of 10^6 bytes."""

    @property
    def text(self) -> str:
        """The measurements."""
        return (
            f"{self.wall_s:.1f} s, {self.cpu_s:.1f} CPU s, {self.memory_mb:.0f} MB; "
            f"of these the driver {self.driver_cpu_s:.1f} CPU s, {self.driver_mb:.0f} MB"
        )


def measure_spark_replay(records: int) -> Iterator[SparkRun]:
    """Replay a small log, one of some records, and as many records in logs of many clusters."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory(prefix="jbodlab-bench-", dir="/tmp") as folder:
        root = Path(folder)
        yield _replay("small", _SMALL_RECORDS, _SMALL, root, cores)
        count = generate(root / "log", records).offset
        yield _replay("one cluster", count, root / "log", root, cores)
        yield _replay("one cluster, local[1]", count, root / "log", root, cores[:1])
        logs = (root / "logs" / f"c{number:03}" for number in range(CLUSTERS))
        count = sum(generate(log, records // CLUSTERS).offset for log in logs)
        yield _replay(f"{CLUSTERS} clusters", count, root / "logs", root, cores)


def _replay(name: str, records: int, log: Path, root: Path, cores: list[int]) -> SparkRun:
    """Replay a log; Spark takes as many cores as the process may use."""
    own = os.sched_getaffinity(0)
    output = tempfile.mkdtemp(dir=root)
    command = [
        *(sys.executable, "-m", "analytics.job", "--engine", "spark"),
        *("--input", str(log), "--results", f"{output}/tables"),
    ]
    run = SparkRun(name=name, records=records)
    os.sched_setaffinity(0, cores)
    try:
        with measured(run):
            job = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            deadline = threading.Timer(DEADLINE_S, job.kill)
            deadline.start()
            _, status, usage = os.wait4(job.pid, 0)
            deadline.cancel()
            run.driver_cpu_s = usage.ru_utime + usage.ru_stime
            run.driver_mb = usage.ru_maxrss * 1024 / 1e6
    finally:
        os.sched_setaffinity(0, own)
    job.returncode = os.waitstatus_to_exitcode(status)
    if job.returncode:
        raise subprocess.CalledProcessError(job.returncode, command)
    return run
