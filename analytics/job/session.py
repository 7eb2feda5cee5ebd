"""The Spark session of a replay: a quiet one on this machine, or the cluster's own.

Under `spark-submit` the session that this gives is the one that was asked for there; otherwise it
runs in this process. Executors must be able to import this package: they get the folder that it
was imported from, or, on a cluster, a zip archive with `--py-files`.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Thread

from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from analytics.errors import ReplayInputError
from analytics.job.kept_spark import archive_options, kept_start
from analytics.store.table_files import DRIVER_BYTES_MAX
from analytics.tables.frames import by_driver, with_settings
from jbodlab.program_names import ROOT

SMALL_LOG_BYTES = 16 << 20
"""Up to this size the start counts: the JVM compiles quickly, not well."""

_ARROW_OPTIONS = (
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Without checks of each single access: the rows of a log come as Arrow batches, whole columns."""

_NO_ACCESSORS = f"-Dsun.reflect.inflationThreshold={2**31 - 1}"
"""Plans are copied by reflection: half a thousand methods would get a class each, to load it."""

_NOT_CHECKED = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Without an archive of classes, which were checked when it was made: Spark's jars are as they were
released, and to prove that of each class once more takes a fifth of the start."""

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

_MEMORY = "spark.driver.memory"

_FEW_COLLECTIONS = ("-Xmn256m", "-XX:MetaspaceSize=192m")
"""A small log makes garbage for a few seconds only: there is room for most of it."""

SMALL_PAGE_BYTES = 1 << 20
"""Every join, sort and aggregation takes a page at least; by itself Spark takes 16 MiB each."""

FINISHED_KEPT = 2
"""Of the jobs and queries that are over; Spark keeps a thousand of each for a page nobody opens."""

BYTES_PER_SHUFFLE_PARTITION = 32 << 20
MIN_SHUFFLE_PARTITIONS = 2

_FEW_ROWS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": str(MIN_SHUFFLE_PARTITIONS),
    # Each query is written out for the user interface, which nobody looks at: a tenth of its time.
    "spark.sql.ui.explainMode": "simple",
}

STARTED_BY = "JBOD_REPLAY_STARTED_BY"
STARTER = uuid.uuid4().hex
"""By these, in their environment, the processes of this process's sessions are told from others."""

_OF_START = (
    "PYTHONPATH",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "JAVA_HOME",
    "SPARK_LOCAL_IP",
    STARTED_BY,
)
"""Variables that only a start needs."""

_FORKED_S = 5.0
"""A fork runs its own program sooner."""

_LOCAL = re.compile(r"local(\[|$)")

_FINISHED = (
    "spark.ui.retainedJobs",
    "spark.ui.retainedStages",
    "spark.sql.ui.retainedExecutions",
)

_JAVA_HOMES = ("/usr/lib/jvm", "/opt/java", "/Library/Java/JavaVirtualMachines")


def start_session(
    size_bytes: int, *, compile_well: bool = True, java_options: Sequence[str] | None = None
) -> SparkSession:
    """Return a session for a log of this size.

    Args:
        size_bytes: Size of the log.
        compile_well: Whether the JVM gets large amounts of rows to work on. A whole replay leaves
            those to Python's arrays; compiling well would cost it more than it saves.
        java_options: More options of the virtual machine; those that use the archive of classes
            where there are none.

    Raises:
        ReplayInputError: there is no Java runtime, the user has no name, or Spark does not start.
    """
    require_user_name()
    with environment_of_start():
        require_java()
        try:
            spark = _start(size_bytes, compile_well=compile_well, java_options=java_options)
        except PySparkRuntimeError as error:  # the JVM is too old, or ended at once
            raise ReplayInputError(f"Spark does not start: {str(error).splitlines()[0]}") from error
    prepare(spark, size_bytes)
    return spark


def _start(
    size_bytes: int, *, compile_well: bool, java_options: Sequence[str] | None
) -> SparkSession:
    builder = SparkSession.builder.appName("jbodlab replay")
    for key, value in _OF_WORKERS.items():
        builder = builder.config(f"spark.executorEnv.{key}", value)
    start: AbstractContextManager[None] = nullcontext()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # not under spark-submit
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        # Otherwise Spark asks for the address of the machine's name, and some machines have none.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.master("local[*]")
        more = (archive_options() or _NOT_CHECKED) if java_options is None else java_options
        options = [*_java_options(size_bytes, compile_well=compile_well), *more]
        settings = _local_settings(size_bytes, options)
        for key, value in settings.items():
            builder = builder.config(key, value)
        start = kept_start([f"-Xmx{settings[_MEMORY]}", *options])
    else:
        # Users want the report on the terminal, not Spark's own messages.
        builder = builder.config("spark.log.level", "ERROR")
    # Its thread looks each second, or half a second, whether it should end: nobody waits for that.
    setattr(AccumulatorTCPServer, "shutdown", _end_later)  # noqa: B010 - no type has room for it
    with start:
        return builder.getOrCreate()


@contextmanager
def environment_of_start() -> Iterator[None]:
    """Give the processes of a session their environment; afterwards this process has its own again.

    The virtual machine passes its environment on to the Python workers that it starts later.
    """
    before = {name: os.environ.get(name) for name in _OF_START}
    python_path = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(python_path))
    os.environ[STARTED_BY] = STARTER
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def prepare(spark: SparkSession, size_bytes: int) -> None:
    """Set what a replay needs of a session."""
    partitions = max(MIN_SHUFFLE_PARTITIONS, -(-size_bytes // BYTES_PER_SHUFFLE_PARTITION))
    for key, value in {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Rows that the driver has are one partition, so that no question moves them; and simple
        # ones are answered while they are planned.
        "spark.sql.leafNodeDefaultParallelism": "1",
        # Not the old INT96, which other readers take for a local time.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }.items():
        spark.conf.set(key, value)


@contextmanager
def few_rows(spark: SparkSession, size_bytes: int) -> Iterator[None]:
    """Let queries inside be planned for few rows: their plans are interpreted, not compiled.

    Most of what a replay asks of Spark moves rows by the thousand, and compiling each of the plans
    takes longer than they run.

    Args:
        spark: The session.
        size_bytes: Size of the log that the rows are of.
    """
    with (
        with_settings(spark, _FEW_ROWS),
        by_driver(spark, is_local(spark) and size_bytes <= DRIVER_BYTES_MAX),
    ):
        yield


_end_at_once = AccumulatorTCPServer.shutdown


def _end_later(server: AccumulatorTCPServer) -> None:
    Thread(target=_end_at_once, args=(server,), name="end accumulators", daemon=True).start()


def is_local(spark: SparkSession) -> bool:
    """Return whether tasks run on this machine and nowhere else."""
    return _LOCAL.match(str(spark.conf.get("spark.master"))) is not None


def end_started() -> None:
    """Kill the processes that a start of a session has left, and no other child of this process.

    Spark starts its JVM deaf to Ctrl-C, and loses sight of it when it is interrupted before the two
    have met: it would stay for ever.
    """
    deadline = time.monotonic() + _FORKED_S
    program = Path("/proc/self/cmdline").read_bytes()
    while True:
        children = list(_children())
        # A fork of this process has the environment of its start only with its own program; while
        # it changes from one to the other, it has no command line.
        are_forks = any(_has(one, "cmdline", line) for one in children for line in (program, b""))
        for one in children:
            if _has(one, "environ", f"{STARTED_BY}={STARTER}".encode()):
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
        if not are_forks or time.monotonic() > deadline:
            return
        time.sleep(0.01)


def _children() -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            # The command's name, in parentheses, may hold anything; state and parent follow it.
            state, parent = (
                (entry / "stat").read_text("ascii", "replace").rpartition(")")[2].split()[:2]
            )
            if int(parent) == os.getpid() and state != "Z":
                yield int(entry.name)


def _has(process_id: int, file: str, content: bytes) -> bool:
    """Return whether a file of a process in /proc has a line; a line ends with a zero byte."""
    try:
        found = Path(f"/proc/{process_id}/{file}").read_bytes()
    except OSError:
        return False
    return found == content or (content != b"" and content in found.split(b"\0"))


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
        raise ReplayInputError("no Java runtime: install Java 17 or later, or set JAVA_HOME")
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


def _java_options(size_bytes: int, *, compile_well: bool) -> list[str]:
    small = size_bytes <= SMALL_LOG_BYTES
    log4j = Path(__file__).with_name("log4j2.properties")
    options = [
        f"-Dlog4j2.configurationFile={log4j.as_uri()}",
        "-XX:+UseSerialGC" if small else "-XX:+UseParallelGC",
        *_ARROW_OPTIONS,
        _NO_ACCESSORS,
    ]
    if small:
        options += _FEW_COLLECTIONS
    if small or not compile_well:
        options += ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
    return options


def _local_settings(size_bytes: int, java_options: Sequence[str]) -> dict[str, str]:
    small = size_bytes <= SMALL_LOG_BYTES
    pages = {"spark.buffer.pageSize": str(SMALL_PAGE_BYTES)} if small else {}
    return {
        **pages,
        **dict.fromkeys(_FINISHED, str(FINISHED_KEPT)),
        _MEMORY: "1g" if small else "2g",
        "spark.driver.extraJavaOptions": " ".join(java_options),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.adaptive.enabled": "false" if small else "true",
        "spark.sql.codegen.wholeStage": "false" if small else "true",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
        "spark.sql.autoBroadcastJoinThreshold": str(10 << 20),
        "spark.python.daemon.module": f"{__package__}.python_daemon",
        "spark.python.worker.reuse": "true",
    }
