"""Keeps Spark ready for `jbod-replay`; see `analytics.job.kept_spark`."""

from __future__ import annotations

import os
import shlex
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
    JARS,
    JAVA_OPTIONS,
    ONES_OWN,
    QUIET,
    STARTER,
    java_program,
    kept_home,
    settings_of_spark,
    spark_jars,
)
from analytics.job.session import SMALL_LOG_BYTES, end_children, require_java, start_session
from bench.metadata_log_generator import generate

LOG = Path(__file__).parent.parent / "tests/fixtures/kafka-metadata-logs/4.3.1-disks/controller"
"""A log of which a bit of everything is made, so that the classes for it are loaded."""

_RECORDS = 60_000
"""Of a log that is too large for the driver."""

_PROGRAM = ("org.apache.spark.deploy.SparkSubmit", "pyspark-shell")
_NOT_NEEDED = "spark-mllib_"
"""What every session registers of it takes a second."""
_LEFT_OUT = ("-Xmx", "--add-modules=jdk.incubator.vector")
"""Of the command: what each start says itself, and what only machine learning computes with; Java
prints a warning about it."""
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
    end_children()
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
    for stale in home.parent.glob("spark-*"):
        shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
    (home / JARS).mkdir(parents=True)
    for jar in spark_jars().glob("*.jar"):
        if not jar.name.startswith(_NOT_NEEDED):
            (home / JARS / jar.name).symlink_to(jar)
    starter = home / STARTER
    starter.parent.mkdir()
    try:
        starter.write_text(_starter(home))
        starter.chmod(0o755)
        _keep_classes(home / CLASSES)
    except BaseException:
        shutil.rmtree(home)
        raise
    return home


def _starter(home: Path) -> str:
    """Return the text of what starts the virtual machine, by the command that Spark's own makes."""
    java, jars = str(java_program()), spark_jars()
    asked = [java, "-cp", f"{jars}/*", "org.apache.spark.launcher.Main", *_PROGRAM]
    # It asks for some version of Scala; what it does with that is for Spark's own developers.
    variables = {**os.environ, "SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "any"}
    told = subprocess.run(asked, env=variables, capture_output=True, check=True, timeout=_WAIT_S)
    command = [part for part in told.stdout.decode().strip("\0\n").split("\0") if part.strip()]
    options = command[1 : command.index(_PROGRAM[0])]
    words = [
        one.replace(str(jars), str(home / JARS)) for one in options if not one.startswith(_LEFT_OUT)
    ]
    start = f'{shlex.join([java, *words])} ${JAVA_OPTIONS} {_PROGRAM[0]} "$@"'
    return f"#!/bin/sh\nset -f\nexec {start}\n"


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
