"""An archive of classes, which the JVM maps at a start in place of reading and checking jars.

A JVM that formats directories writes it when it ends, before the first cluster of an engine is
started; it is kept beside the fetched jars. The JVM itself looks whether an archive fits its
version and the jars, and goes without it where it does not; but it crashes over one that was cut
off, so the name has the size.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from lab.machine import kafka_jars
from lab.machine.kafka_jars import NoKafkaError


def options(jars: Sequence[Path]) -> list[str]:
    """Return the options of the JVM that map the archive of some jars; none where there is none."""
    found = next(filter(_is_whole, kafka_jars.CACHE.glob(f"{_name(jars)}-*.jsa")), None)
    return [] if found is None else [f"-XX:SharedArchiveFile={found}"]


def write(jars: Sequence[Path], run: Callable[[list[str]], None]) -> None:
    """Let a JVM write the archive when it ends, if there is none; it does not matter if it fails.

    Args:
        jars: Jars whose classes are archived.
        run: Runs a JVM with these jars and with the options that it is given.
    """
    if options(jars):
        return
    cache = kafka_jars.CACHE
    with contextlib.suppress(OSError, NoKafkaError):
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            archive = Path(folder) / "classes.jsa"
            run([f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"])
            archive.chmod(0o644)
            size = archive.stat().st_size
            for former in cache.glob(f"{_name_of_all(jars)}-*.jsa"):
                former.unlink()
            archive.rename(cache / f"{_name(jars)}-{size}.jsa")


def _name_of_all(jars: Sequence[Path]) -> str:
    """Return how the names of all archives for these jars begin."""
    return f"archive-{_digest(map(str, jars))}"


def _name(jars: Sequence[Path]) -> str:
    """Return the same for the jars as they are now and for the JVM that is installed."""
    java = Path(shutil.which(kafka_jars.java()) or "").resolve()
    found = [path.stat() for path in (java, *jars)]
    stamps = _digest(f"{one.st_size} {one.st_mtime_ns}" for one in found)
    return f"{_name_of_all(jars)}-{stamps}"


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _is_whole(archive: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # Another process may replace it just now.
        found = archive.stat()
        is_own = found.st_uid == os.geteuid()
        return is_own and archive.name.endswith(f"-{found.st_size}.jsa")
    return False
