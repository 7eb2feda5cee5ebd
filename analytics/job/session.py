"""The Spark session of a replay: a quiet one on this machine, or the cluster's own.

Under `spark-submit` the session that this gives is the one that was asked for there; otherwise it
runs in this process. Executors must be able to import this package: they get the folder that it
was imported from, or, on a cluster, a zip archive with `--py-files`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from analytics.errors import ReplayInputError
from analytics.job import class_archive, spark_environment, spark_home
from jbodlab.cli.program_names import ROOT

SMALL_LOG_BYTES = 16 << 20
"""Up to this size a start and a plan cost more than what they do, and little memory is needed."""

_OF_WORKERS = {
    # Whatever lies in the folder that somebody works in, they do not import it.
    "PYTHONSAFEPATH": "1",
    # Columns of millions of rows come and go: memory that is given back each time has to be cleared
    # for each that comes, which took a third of some tasks.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
"""Environment of Python workers."""

_STARTED_BY = "JBOD_REPLAY_STARTED_BY"
"""This variable marks the processes of a start, in their environment."""

_OF_START = (
    "PYTHONPATH",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "JAVA_HOME",
    "SPARK_HOME",
    "SPARK_LOCAL_IP",
    _STARTED_BY,
)
"""Variables that only a start needs."""

_LOOKS, _LOOK_EVERY_S = 20, 0.02
"""A process that is only forked has its environment a moment later."""

_JAVA_HOMES = ("/usr/lib/jvm", "/opt/java", "/Library/Java/JavaVirtualMachines")


def start_session(size_bytes: int) -> SparkSession:
    """Return a session for a log of this size, in bytes.

    Raises:
        ReplayInputError: there is no Java runtime, the user has no name, or Spark does not start.
    """
    require_user_name()
    package = Path(pyspark.__file__).parent
    spark_environment.check(package)
    builder = SparkSession.builder.appName("jbodlab replay")
    for key, value in _OF_WORKERS.items():
        builder = builder.config(f"spark.executorEnv.{key}", value)
    with _environment_of_start():
        require_java()
        if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            # Otherwise Spark asks for the address of the machine's name, and some have none.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.master("local[*]")
            if not os.environ.get("SPARK_HOME"):
                os.environ["SPARK_HOME"] = str(spark_home.without_archive(package))
            jars = Path(os.environ["SPARK_HOME"]) / "jars"
            for key, value in _local_settings(size_bytes, jars).items():
                builder = builder.config(key, value)
        else:
            # Users want the report on the terminal, not Spark's own messages.
            builder = builder.config("spark.log.level", "ERROR")
        try:
            with spark_environment.explained(package):
                return builder.getOrCreate()
        except KeyboardInterrupt:
            _end_started()
            raise


@contextmanager
def _environment_of_start() -> Iterator[None]:
    """Give the processes of a session their environment; afterwards this process has its own again.

    The virtual machine passes its environment on to the Python workers that it starts later.
    """
    before = {name: os.environ.get(name) for name in _OF_START}
    python_path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    python_path.append(str(Path(pyspark.__file__).parents[1]))
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(python_path))
    os.environ[_STARTED_BY] = uuid.uuid4().hex
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _end_started() -> None:
    """Kill what the start of a session has left, and no other child of this process.

    Spark starts its Java virtual machine deaf to Ctrl-C. One that is still starting then finds the
    folder gone in which it should leave its port, and would stay for ever.
    """
    mark = f"{_STARTED_BY}={os.environ[_STARTED_BY]}".encode()
    for _ in range(_LOOKS):
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if mark in path.read_bytes().split(b"\0"):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        time.sleep(_LOOK_EVERY_S)


def require_java() -> None:
    """Find a Java runtime and leave it in JAVA_HOME.

    Raises:
        ReplayInputError: there is none.
    """
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        if not (Path(java_home) / "bin" / "java").exists():
            raise ReplayInputError(f"JAVA_HOME {java_home} holds no bin/java")
        return
    if shutil.which("java"):
        return
    found = sorted(
        java.parent.parent for home in _JAVA_HOMES for java in Path(home).glob("**/bin/java")
    )
    if not found:
        raise ReplayInputError(
            "no Java runtime: install Java 17 or later, set JAVA_HOME, or give --engine local"
        )
    os.environ["JAVA_HOME"] = str(found[-1])


def require_user_name() -> None:
    """Check what Hadoop's login asks for; in a container a bare user id may have no name.

    Raises:
        ReplayInputError: the operating system knows no name for this process's user.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise ReplayInputError(
            f"user id {os.getuid()} has no name in /etc/passwd, and Spark needs one"
        ) from None


def _local_settings(size_bytes: int, jars: Path) -> dict[str, str]:
    small = size_bytes <= SMALL_LOG_BYTES
    log4j = Path(__file__).with_name("log4j2.properties")
    java_options = (
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        "-XX:+UseSerialGC" if small else "-XX:+UseParallelGC",
        # Otherwise each growth of the space for classes collects all garbage.
        "-XX:MetaspaceSize=256m",
        # A process that runs for seconds is not worth the compiler that takes half of them.
        *(("-XX:TieredStopAtLevel=1",) if small else ()),
        # The first compiler alone has 48 MB otherwise; when they are full, a job waits for ever.
        "-XX:ReservedCodeCacheSize=240m",
        *class_archive.options(jars),
    )
    return {
        "spark.driver.memory": "1g" if small else "2g",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
    }
