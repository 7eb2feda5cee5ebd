"""Keeps Spark ready for `jbodlab replay`; see `analytics.job.kept_spark`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import NoReturn

from pyspark.sql import SparkSession

from analytics.errors import ReplayInputError
from analytics.job.command import replay
from analytics.job.kept_spark import (
    CLASSES,
    ONES_OWN,
    QUIET,
    kept_home,
    make_start,
    settings_of_spark,
)
from analytics.job.session import SMALL_LOG_BYTES, end_started, require_java, start_session
from bench.metadata_log_generator import generate

LOG = Path(__file__).parent.parent / "tests/fixtures/kafka-metadata-logs/4.3.1-disks/controller"
"""A log of which a bit of everything is made, so that the classes for it are loaded."""

_RECORDS = 60_000
"""Of a log that is too large for the driver."""

_WAIT_S = 120


def main() -> int:
    """Keep it if it is not there; whatever prevents that only costs time later."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        made = keep()
    except (ReplayInputError, OSError, subprocess.SubprocessError) as error:
        print(f"Spark is not kept ready: {error}", file=sys.stderr)
        return 0
    if made is not None:
        print(f"keeping Spark ready in {made}")
    return 0


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """End with the virtual machine, which waits for its input's end, and then writes a lot."""
    end_started()
    sys.exit(128 + number)


def keep() -> Path | None:
    """Make what is kept, as if nobody had set anything of Spark's: only such starts use it.

    Returns:
        Its folder; None if it exists already.

    Raises:
        ReplayInputError: there is no Java runtime, or Spark has settings or does not start.
        OSError: it cannot be written.
        SubprocessError: Spark tells no command.
    """
    if settings := settings_of_spark():
        raise ReplayInputError(f"{settings[0]} is there, and says how it starts")
    for name in ONES_OWN:
        os.environ.pop(name, None)
    require_java()
    home = kept_home()
    if home is None or (home / CLASSES).exists():
        return None
    home.parent.mkdir(parents=True, exist_ok=True)
    for stale in (*home.parent.glob("spark-*"), *home.parent.glob(".spark-*")):
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    make_start(home)
    try:
        _keep_classes(home / CLASSES)
    except BaseException:
        shutil.rmtree(home)
        raise
    return home


def _keep_classes(path: Path) -> None:
    unfinished = path.with_suffix(f".{os.getpid()}")
    options = [*QUIET, f"-XX:ArchiveClassesAtExit={unfinished}"]
    spark = start_session(SMALL_LOG_BYTES, java_options=options)
    machine = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    try:
        with tempfile.TemporaryDirectory() as folder:
            _use(spark, Path(folder))
        spark.stop()
        # It writes the archive when it ends, and it ends with its input.
        machine.stdin.close()
        machine.wait(_WAIT_S)
    except subprocess.TimeoutExpired as error:
        raise ReplayInputError(f"Java did not end within {_WAIT_S} s") from error
    finally:
        machine.kill()
    unfinished.replace(path)


def _use(spark: SparkSession, folder: Path) -> None:
    """Replay a small log, and one that tasks read."""
    replay(LOG, folder / "small", spark)
    generate(folder / "log", _RECORDS)
    replay(folder / "log", folder / "larger", spark)


if __name__ == "__main__":
    sys.exit(main())
