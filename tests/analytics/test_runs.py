"""Replays as processes, on both engines: killed at random moments, side by side, on mangled logs,
and on many clusters at once."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL, SPARK
from analytics.job.command import replay
from analytics.job.output import OutputDir
from analytics.job.spark_tables import SparkTables
from analytics.tables.catalog import TABLES
from bench.compare_tables import compare
from bench.metadata_log_generator import generate
from tests.analytics.random_records import random_log
from tests.analytics.shared import FIXTURES

# On two busy cores a hundred clusters take Spark a quarter of an hour.
pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(3600)]

DEADLINE_S = 600
SEED = int(os.environ.get("JBODLAB_TEST_SEED", "1"))
KILLS = {LOCAL: 25, SPARK: 8}
MANGLED = int(os.environ.get("JBODLAB_TEST_FAULTS", "221"))
CLUSTERS, RECORDS = 500, 2_000


def started(engine: str, inputs: Sequence[Path], output: Path) -> subprocess.Popen[str]:
    given = ["--input", *map(str, inputs), "--results", str(output), "--full"]
    return subprocess.Popen(
        [sys.executable, "-m", "analytics.job", "--engine", engine, *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def told(run: subprocess.Popen[str]) -> tuple[int, str]:
    _, error = run.communicate(timeout=DEADLINE_S)
    return run.returncode, error


def counted(output: Path) -> dict[str, int]:
    """Return the number of rows of each table."""
    return {table.name: pq.read_table(output / table.name).num_rows for table in TABLES}


@pytest.mark.parametrize("engine", [LOCAL, SPARK])
def test_a_run_killed_at_any_moment_leaves_the_former_tables_or_its_own(
    engine: str, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    logs = [random_log(tmp_path / f"log-{steps}", 3, steps).directory for steps in (20, 60)]
    whole, lasted_s = [], 0.0
    for number, log_folder in enumerate(logs):
        begun = time.monotonic()
        assert told(started(engine, [log_folder], tmp_path / f"whole-{number}"))[0] == 0
        lasted_s = time.monotonic() - begun
        whole.append(counted(tmp_path / f"whole-{number}"))
    assert whole[0]["records"] != whole[1]["records"]
    output = tmp_path / "out"
    shutil.copytree(tmp_path / "whole-0", output)
    for kill in range(KILLS[engine]):
        run = started(engine, [logs[(kill + 1) % 2]], output)
        time.sleep(chance.uniform(0.2, 1.1) * lasted_s)
        run.kill()
        told(run)

        # The begin of the next run does what a killed one has left to do.
        following = OutputDir(str(output), TABLES)
        following.prepare(())
        following.clean_up()

        assert counted(output) in whole, kill


@pytest.mark.parametrize("engine", [LOCAL, SPARK])
def test_two_runs_at_once_give_what_each_gives_alone(engine: str, tmp_path: Path) -> None:
    logs = [FIXTURES / name / "controller" for name in ("3.9.2-admin", "4.3.1-disks")]
    alone = [tmp_path / f"alone-{number}" for number in range(2)]
    for log, output in zip(logs, alone, strict=True):
        replay(log, output, LOCAL)
    others = [tmp_path / f"other-{number}" for number in range(2)]

    runs = [started(engine, [log], output) for log, output in zip(logs, others, strict=True)]

    assert [told(run)[0] for run in runs] == [0, 0]
    assert [compare(*pair) for pair in zip(alone, others, strict=True)] == [[], []]

    runs = [started(engine, [log], tmp_path / "same") for log in logs]

    (first, first_error), (second, second_error) = map(told, runs)
    assert 0 in (first, second)
    for code, error in ((first, first_error), (second, second_error)):
        assert code == 0 or (code == 1 and "is in use by another replay" in error), error
    assert [] in [compare(each, tmp_path / "same") for each in alone]


def mangled(source: Path, target: Path, chance: random.Random) -> None:
    """Copy a log as transports and disks leave one: cut, with other bytes, without a file."""
    shutil.copytree(source, target)
    files = sorted(each for each in target.rglob("*") if each.suffix in (".log", ".checkpoint"))
    file = chance.choice(files)
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data))
    match chance.randrange(6):
        case 0:
            del data[at:]
        case 1:
            data[at] ^= 1 << chance.randrange(8)
        case 2:
            data[at : at + chance.randrange(400)] = bytes(chance.randrange(400))
        case 3:
            data = bytearray(data.replace(b"\n", b"\r\n"))
        case 4:
            data += chance.randbytes(chance.randrange(1, 300))
        case 5:
            del data[at : at + chance.randrange(1, 200)]
    file.write_bytes(data)
    if chance.random() < 0.1:
        chance.choice(files).unlink()


def test_mangled_logs_give_equal_tables_on_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    whole = [FIXTURES / name / "controller" for name in ("3.9.2-admin", "4.3.1-disks")]
    inputs = []
    for number in range(MANGLED):
        mangled(chance.choice(whole), tmp_path / "logs" / f"{number:03}", chance)
        inputs.append(f"m{number:03}={tmp_path}/logs/{number:03}")

    replay(inputs, tmp_path / "local", LOCAL)
    replay(inputs, tmp_path / "spark", SparkTables(spark))

    assert compare(tmp_path / "local", tmp_path / "spark") == []


def jobs_of(spark: SparkSession, logs: Sequence[Path], output: Path) -> int:
    """Replay logs as so many clusters; returns the number of Spark's jobs."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    before = store.jobsList(None).size()
    replay([f"c{number:03}={log}" for number, log in enumerate(logs)], output, SparkTables(spark))
    return int(store.jobsList(None).size()) - before


def test_jobs_are_as_many_for_500_clusters_as_for_40(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of more than 32 clusters Spark lists the folders of a table that is read back by a job.
    monkeypatch.setattr("analytics.job.spark_tables.FEW_ROWS_BYTES", 0)
    monkeypatch.setattr("analytics.engines.spark.FEW_BYTES", 0)
    generate(tmp_path / "log", RECORDS)

    few, many = (
        jobs_of(spark, [tmp_path / "log"] * count, tmp_path / f"out-{count}")
        for count in (40, CLUSTERS)
    )

    assert many == few
    found = pq.read_table(tmp_path / f"out-{CLUSTERS}" / "leadership")
    assert found.num_rows % CLUSTERS == 0
