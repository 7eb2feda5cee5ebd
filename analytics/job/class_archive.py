"""Spark's classes kept ready, so that the Java virtual machine of a replay starts sooner.

Half of what a replay of a small log takes is loading and checking some fifteen thousand classes.
The virtual machine can keep them in an archive that later ones map into memory. `make env` makes it
(`scripts/keep_spark_classes.py`); without it, or with another Java than it was made with,
everything works, only slower.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

import pyspark

QUIET = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable", "-Xlog:all=error:stderr")
"""An archive that does not fit is passed over; nobody needs to read about it."""


def archive_options() -> list[str]:
    """Return the options of a virtual machine that uses the archive; none if there is none."""
    path = archive_path()
    return [*QUIET, f"-XX:SharedArchiveFile={path}"] if path is not None and path.exists() else []


def archive_path() -> Path | None:
    """Return where the archive belongs, by the Java and the Spark that it is of."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        made = (java.resolve(), java.stat().st_mtime_ns, jars.stat().st_mtime_ns)
    except OSError:
        return None
    key = hashlib.sha256(repr((made, str(jars), pyspark.__version__)).encode()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "jbodlab" / f"spark-{key}.jsa"
