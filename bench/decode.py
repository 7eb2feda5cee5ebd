"""How fast a metadata log of millions of records is read: the data source, the job, Kafka's tool.

All three read the same generated log in the same run. The data source is measured with Spark up,
after a small log has been read once; the job and the tool from their start to their end. Beside the
time that passed stands the processor time of all processes, which other work on the machine
disturbs less, and the largest memory of all processes together.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.job.session import start_session
from analytics.read.layout import read_layout
from analytics.source.data_source import KraftMetadataSource
from bench.metadata_log_generator import generate
from jbodlab.storage.directory.names import METADATA_DIR_NAME

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
WARM_UP_RECORDS = 1_000_000
"""As many as the virtual machine needs to have compiled what is hot."""
READS = (
    ("all columns", "true", None),
    ("without payload", "false", None),
    (
        "six columns",
        "false",
        "offset LONG, timestamp TIMESTAMP, type STRING, topic_id STRING, partition INT, broker INT",
    ),
)
"""Columns that are read: name, the option `payload`, the schema; None for all columns."""
SAMPLE_S = 1.0
"""Asking for memory costs time of the processors that are measured."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One way of reading the log."""

    name: str
    records: int
    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Processor seconds of this process and its children, user and system."""
    memory_mb: float = 0.0
    """Largest sum of their memory, shared pages counted once, MB of 10^6 bytes."""

    @property
    def text(self) -> str:
        """The run in one line."""
        per_record = self.cpu_s / self.records * 1e6
        return (
            f"{self.wall_s:.1f} s, {self.records / self.wall_s:,.0f} records/s, "
            f"{self.cpu_s:.1f} CPU s ({per_record:.2f} us/record), {self.memory_mb:.0f} MB"
        )


def measure_decode(records: int, jars: Path | None, runs: int = 2) -> list[Run]:
    """Generate a log and read it in every way.

    Args:
        records: Size of the log.
        jars: Folder of Kafka's jars; None leaves its tool out.
        runs: How often the data source reads it.
    """
    with tempfile.TemporaryDirectory(prefix="jbodlab-bench-", dir="/tmp") as folder:
        root = Path(folder)
        begin = time.monotonic()
        written = generate(root / "log", records)
        print(
            f"{written.offset} records in {written.batches} batches, "
            f"made in {time.monotonic() - begin:.1f} s",
            file=sys.stderr,
        )
        generate(root / "small", WARM_UP_RECORDS)
        count = written.offset
        found = _source_runs(root, count, runs)
        found.append(_job(root, count))
        if jars is not None:
            found.append(_dump_tool(root, jars, count))
        return found


def _source_runs(root: Path, count: int, runs: int) -> list[Run]:
    layout = read_layout(root / "log" / METADATA_DIR_NAME)
    spark = start_session(layout.size_bytes)
    spark.dataSource.register(KraftMetadataSource)
    try:
        _read(spark, root / "small", "true")
        found = []
        for number in range(1, runs + 1):
            for what, payload, schema in READS:
                name = f"data source, {what}, run {number}"
                with measured(Run(name=name, records=count)) as run:
                    _read(spark, root / "log", payload, schema)
                found.append(run)
        return found
    finally:
        spark.stop()


def _read(spark: SparkSession, path: Path, payload: str, schema: str | None = None) -> None:
    reader = spark.read.format("kraft-metadata").option("payload", payload)
    rows = (reader if schema is None else reader.schema(schema)).load(str(path))
    rows.write.format("noop").mode("overwrite").save()


def _job(root: Path, count: int) -> Run:
    command = [
        *(sys.executable, "-m", "analytics.job"),
        *("--input", str(root / "log"), "--results", str(root / "tables")),
    ]
    with measured(Run(name="jbodlab replay", records=count)) as run:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=3600)
    return run


def _dump_tool(root: Path, jars: Path, count: int) -> Run:
    files = sorted((root / "log" / METADATA_DIR_NAME).glob("*.log"))
    command = [
        *("java", "-Xmx1g", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"),
        *("--cluster-metadata-decoder", "--files", ",".join(map(str, files))),
    ]
    with measured(Run(name="Kafka's dump tool", records=count)) as run:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=3600)
    return run


@contextmanager
def measured(run: Run) -> Iterator[Run]:
    """Fill in what a run took, by this process and all that it has started."""
    done = threading.Event()
    cpu, begin = _cpu_s(), time.monotonic()

    def sample() -> None:
        while not done.wait(SAMPLE_S):
            run.memory_mb = max(run.memory_mb, _memory_mb())
            # CPU time of a process that nobody waits for is gone with it.
            run.cpu_s = max(run.cpu_s, _cpu_s() - cpu)

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield run
        run.wall_s = time.monotonic() - begin
        run.cpu_s = max(run.cpu_s, _cpu_s() - cpu)
    finally:
        done.set()
        sampler.join()
    print(f"{run.name}: {run.text}", file=sys.stderr, flush=True)


def _cpu_s() -> float:
    """Processor time of all processes of this tree, those that have ended included."""
    ticks = 0
    for fields in _tree().values():
        ticks += sum(map(int, fields[11:15]))
    return ticks / CLOCK_TICKS


def _memory_mb() -> float:
    total = 0
    for pid in _tree():
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        line = next((line for line in rollup.splitlines() if line.startswith("Pss:")), "Pss: 0")
        total += int(line.split()[1])
    return total * 1024 / 1e6


def _tree() -> dict[int, list[str]]:
    """Return the fields of /proc/<pid>/stat behind the name, for this process and its children."""
    fields = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        fields[int(path.name)] = stat.rpartition(")")[2].split()
    found = {os.getpid()}
    while True:
        more = {pid for pid, one in fields.items() if int(one[1]) in found} - found
        if not more:
            return {pid: fields[pid] for pid in found if pid in fields}
        found |= more
