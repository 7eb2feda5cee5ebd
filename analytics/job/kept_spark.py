"""Spark kept ready, so that the Java virtual machine of a replay starts sooner.

Half of what a replay of a small log takes is the start: a shell and a first virtual machine that
put together the command of a second one, some fifteen thousand classes to load and to check, and
functions of machine learning that each session registers. The first start keeps what that comes
to: the command, and a folder of Spark's jars without those of machine learning. `make env` adds an
archive of classes that is mapped into memory (`scripts/keep_spark.py`). Where nothing can be kept,
or somebody sets something of Spark's (`ONES_OWN`, or a file in `pyspark/conf`), everything works,
only slower.

    bin/spark-submit   what `pyspark` calls: the command, with the options of `JAVA_OPTIONS`
    classes.jsa        the archive
    jars/              links to the jars
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import SubprocessError

import pyspark

QUIET = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is passed over; nobody needs to read about it."""

STARTER = "bin/spark-submit"
CLASSES = "classes.jsa"
JARS = "jars"
JAVA_OPTIONS = "JBODLAB_SPARK_JAVA_OPTIONS"
"""The variable by which the starter gets the options of the virtual machine."""

_SPARK_HOME = "SPARK_HOME"
ONES_OWN = (
    _SPARK_HOME,
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_SUBMIT_OPTS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
)
"""Whoever sets one of these means a start that nobody here knows."""

FORMAT = 1
"""Of what is kept: another one wherever that is made in another way."""

_PROGRAM = ("org.apache.spark.deploy.SparkSubmit", "pyspark-shell")
_NOT_NEEDED = "spark-mllib_"
"""What every session registers of it takes a second."""
_LEFT_OUT = ("-Xmx", "--add-modules=jdk.incubator.vector")
"""Of the command: what each start says itself, and what only machine learning computes with; Java
prints a warning about it."""
_WAIT_S = 120


def spark_jars() -> Path:
    """Return the folder of Spark's own jars."""
    return Path(pyspark.__file__).parent / "jars"


def settings_of_spark() -> list[Path]:
    """Return the files in which somebody has set something for all of Spark's starts."""
    conf = spark_jars().with_name("conf")
    return sorted(path for path in conf.glob("*") if path.suffix != ".template")


def java_program() -> Path:
    """Return the Java that Spark is started with; it may not exist."""
    home = os.environ.get("JAVA_HOME")
    return Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")


def kept_home() -> Path | None:
    """Return where it belongs, by the Java and the Spark that it is of."""
    java, jars = java_program(), spark_jars()
    try:
        made = (FORMAT, java.resolve(), java.stat().st_mtime_ns, jars.stat().st_mtime_ns)
    except OSError:
        return None
    key = hashlib.sha256(repr((made, str(jars), pyspark.__version__)).encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "jbodlab" / f"spark-{key}"


def archive_options() -> list[str]:
    """Return the options of a virtual machine that uses the archive; none if there is none."""
    home = _usable()
    if home is None or not (home / CLASSES).exists():
        return []
    return [*QUIET, f"-XX:SharedArchiveFile={home / CLASSES}"]


@contextmanager
def kept_start(java_options: Sequence[str]) -> Iterator[None]:
    """Let `pyspark` start its virtual machine by what is kept, if that is there.

    Args:
        java_options: Of the virtual machine.
    """
    home = None if any(" " in option for option in java_options) else _usable() or _made()
    if home is None:
        yield
        return
    os.environ[_SPARK_HOME], os.environ[JAVA_OPTIONS] = str(home), " ".join(java_options)
    try:
        yield
    finally:
        del os.environ[_SPARK_HOME], os.environ[JAVA_OPTIONS]


def make_start(home: Path) -> None:
    """Keep the command by which Spark is started, and links to the jars that it needs.

    Args:
        home: Where it is not kept yet; see `kept_home`.

    Raises:
        OSError: it cannot be written, or somebody else was quicker.
        SubprocessError: Spark tells no command.
    """
    unfinished = home.with_name(f".{home.name}-{os.getpid()}")
    try:
        (unfinished / JARS).mkdir(parents=True)
        for jar in spark_jars().glob("*.jar"):
            if not jar.name.startswith(_NOT_NEEDED):
                (unfinished / JARS / jar.name).symlink_to(jar)
        starter = unfinished / STARTER
        starter.parent.mkdir()
        starter.write_text(_starter(home))
        starter.chmod(0o755)
        unfinished.rename(home)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _starter(home: Path) -> str:
    """Return the text of what starts the virtual machine, by the command that Spark's own makes."""
    java, jars = str(java_program()), spark_jars()
    asked = [java, "-cp", f"{jars}/*", "org.apache.spark.launcher.Main", *_PROGRAM]
    # It asks for some version of Scala; what it does with that is for Spark's own developers.
    variables = {**os.environ, _SPARK_HOME: str(jars.parent), "SPARK_SCALA_VERSION": "any"}
    told = subprocess.run(asked, env=variables, capture_output=True, check=True, timeout=_WAIT_S)
    command = [part for part in told.stdout.decode().strip("\0\n").split("\0") if part.strip()]
    options = command[1 : command.index(_PROGRAM[0])]
    words = [
        one.replace(str(jars), str(home / JARS)) for one in options if not one.startswith(_LEFT_OUT)
    ]
    start = f'{shlex.join([java, *words])} ${JAVA_OPTIONS} {_PROGRAM[0]} "$@"'
    return f"#!/bin/sh\nset -f\nexec {start}\n"


def _usable() -> Path | None:
    home = _home()
    return home if home is not None and (home / STARTER).exists() else None


def _made() -> Path | None:
    """Keep the command now; asking for it takes no longer than Spark's own start, which does so."""
    home = _home()
    if home is not None:
        with suppress(OSError, SubprocessError):
            make_start(home)
    return _usable()


def _home() -> Path | None:
    if settings_of_spark() or any(name in os.environ for name in ONES_OWN):
        return None
    return kept_home()
