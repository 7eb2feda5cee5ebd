"""How a replay grows with its log: the same cluster's log at 1, 4 and 16 times of a size.

A linear cost stays the same per 64 MB of the log; the estimates of docs/many-clusters.md follow.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.decode import Run, measured
from bench.metadata_log_generator import generate
from jbodlab.storage.directory.names import METADATA_DIR_NAME

TIMES = (1, 4, 16)
MB = 1_000_000
_UNIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One log and its replay."""

    times: int
    run: Run
    log_mb: float
    tables_mb: float
    files: int

    @property
    def text(self) -> str:
        """The measurements, and their part for a log of 64 MB."""
        units = self.log_mb * MB / _UNIT_BYTES
        return (
            f"{self.log_mb:.0f} MB of log, {self.run.text}; {self.files} files of tables, "
            f"{self.tables_mb:.0f} MB; of 64 MB of log {self.run.cpu_s / units:.1f} CPU s, "
            f"{self.files / units:.0f} files, {self.tables_mb / units:.0f} MB"
        )


def measure_replay_sizes(records: int) -> list[Size]:
    """Replay logs of some records, and of 4 and 16 times as many."""
    return [_one(records * times, times) for times in TIMES]


def _one(records: int, times: int) -> Size:
    with tempfile.TemporaryDirectory(prefix="jbodlab-bench-", dir="/tmp") as folder:
        root = Path(folder)
        written = generate(root / "log", records)
        output = root / "tables"
        command = [
            *(sys.executable, "-m", "analytics.job"),
            *("--input", str(root / "log"), "--results", str(output)),
        ]
        with measured(Run(name=f"jbodlab replay, {times} times", records=written.offset)) as run:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=3600)
        files = [path.stat().st_size for path in output.glob("*/*/*.parquet")]
        log = [path.stat().st_size for path in (root / "log" / METADATA_DIR_NAME).iterdir()]
        return Size(
            times=times,
            run=run,
            log_mb=sum(log) / MB,
            tables_mb=sum(files) / MB,
            files=len(files),
        )
