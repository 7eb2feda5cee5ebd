"""Spark kept ready, so that the Java virtual machine of a replay starts sooner.

Half of what a replay of a small log takes is the start: a shell and a first virtual machine that
put together the command of a second one, some fifteen thousand classes to load and to check, and
functions of machine learning that each session registers. `make env` keeps what that comes to
(`scripts/keep_spark.py`): the command, an archive of classes that is mapped into memory, and a
folder of Spark's jars without those of machine learning. Without it, with another Java than it was
made with, or where somebody sets something of Spark's (`ONES_OWN`, or a file in `pyspark/conf`),
everything works, only slower.

    bin/spark-submit   what `pyspark` calls: the command, with the options of `JAVA_OPTIONS`
    classes.jsa        the archive
    jars/              links to the jars
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
"""Of what is kept: another one wherever `scripts/keep_spark.py` makes it in another way."""


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
    home = _usable()
    if home is None or any(" " in option for option in java_options):
        yield
        return
    os.environ[_SPARK_HOME], os.environ[JAVA_OPTIONS] = str(home), " ".join(java_options)
    try:
        yield
    finally:
        del os.environ[_SPARK_HOME], os.environ[JAVA_OPTIONS]


def _usable() -> Path | None:
    if settings_of_spark() or any(name in os.environ for name in ONES_OWN):
        return None
    home = kept_home()
    return home if home is not None and (home / STARTER).exists() else None
