"""An archive of Spark's classes, which Java maps at a start in place of reading and checking jars.

The first session of a user writes it when its Java ends. Java itself looks whether an archive fits
its version and the jars, and goes without it where it does not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from jbodlab.cli import lab_state

_MAGIC_BYTES = 4


def options(jars: Path) -> list[str]:
    """Return the options of a Java that maps the archive of a folder of jars, or else writes it.

    Where nothing can be kept there are none.
    """
    folder = lab_state.cache_dirs(os.environ, os.geteuid())[0] / "spark"
    home = os.environ.get("JAVA_HOME")
    java = Path(shutil.which("java" if home is None else f"{home}/bin/java") or "").resolve()
    try:
        if lab_state.make_cache(folder, os.geteuid()):
            return []
        found = [path.stat() for path in (java, jars)]
        stamps = _digest(*(f"{one.st_size} {one.st_mtime_ns}" for one in found))
        archive = folder / f"{_digest(str(jars))}-{stamps}.jsa"
        if _is_whole(archive):
            return [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]
        for former in folder.glob(f"{_digest(str(jars))}-*.jsa"):
            former.unlink(missing_ok=True)
    except OSError:
        return []
    return [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _is_whole(archive: Path) -> bool:
    """Return whether Java has come to the end: it writes the first bytes last."""
    if not archive.exists():
        return False
    with archive.open("rb") as file:
        return any(file.read(_MAGIC_BYTES))
