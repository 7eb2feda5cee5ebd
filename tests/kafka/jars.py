"""Apache Kafka's released jars: fetched with Maven once, for all test processes of this user.

All is in one folder: the jars of each release, and the programs beside this module, compiled.
Readers need no lock: a folder has its name only when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RELEASE = "4.3.1"
"""The release whose servers and tools are compared with ours."""
ARTIFACTS = {
    RELEASE: ("kafka_2.13", "kafka-tools"),
    # The first with UnregisterControllerRecord; nothing but its records is used.
    "4.4.0": ("kafka-metadata",),
}
"""What is fetched of each release, with all that it depends on."""

CACHE = Path(tempfile.gettempdir()) / f"jbodlab-kafka-{os.getuid()}"
"""Where the servers' user can read it, unlike a cache in root's home."""

FETCH_DEADLINE_S = 600
COMPILE_DEADLINE_S = 300
SOURCES = sorted(Path(__file__).parent.glob("*.java"))

DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version></dependency>"
)
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>test</groupId><artifactId>test</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""


class NoKafkaError(Exception):
    """Apache Kafka's jars cannot be had or used on this machine."""


def fetched(release: str = RELEASE, cache: Path = CACHE) -> Path:
    """Return the folder of a release's jars; Maven fetches them where they are not there.

    Raises:
        NoKafkaError: they cannot be fetched, with the reason.
    """
    _require("java")
    return once(cache, f"jars-{release}", lambda folder: _fetch(release, folder))


def compiled(cache: Path = CACHE) -> Path:
    """Return the folder of this folder's Java programs, compiled.

    Raises:
        NoKafkaError: they cannot be compiled, with the reason.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
    jars = fetched(cache=cache)
    return once(cache, f"classes-{digest}", lambda folder: _compile(jars, folder))


def once(cache: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache that is made whole, by one process, if it is not there."""
    folder = cache / name
    if not folder.exists():
        with _locked(cache):
            if not folder.exists():
                unfinished = cache / f"{name}.unfinished"
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)
    return folder


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One process at a time; the others wait for as long as it may take, which has an end."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NoKafkaError(f"no folder for Apache Kafka's jars: {error}") from error
    if cache.stat().st_uid != os.getuid():
        raise NoKafkaError(f"{cache} belongs to another user")
    cache.chmod(0o755)
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(release: str, folder: Path) -> None:
    _require("mvn")
    wanted = [("org.apache.kafka", artifact, release) for artifact in ARTIFACTS[release]]
    wanted.append(("org.slf4j", "slf4j-nop", "1.7.36"))
    dependencies = "".join(
        DEPENDENCY.format(group=group, artifact=artifact, version=version)
        for group, artifact, version in wanted
    )
    pom = folder / "pom.xml"
    pom.write_text(POM.format(dependencies=dependencies))
    _run(
        f"Maven cannot fetch Apache Kafka {release}",
        *("mvn", "-q", "-B", "-f", str(pom)),
        *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
        deadline_s=FETCH_DEADLINE_S,
    )


def _compile(jars: Path, folder: Path) -> None:
    _require("javac")
    _run(
        "the Java programs cannot be compiled",
        *("javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-Werror"),
        *("-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(folder), *map(str, SOURCES)),
        deadline_s=COMPILE_DEADLINE_S,
    )


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise NoKafkaError(f"{program} is not installed")


def _run(failure: str, *command: str, deadline_s: float) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=deadline_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoKafkaError(f"{failure}: {error}") from error
    if done.returncode:
        raise NoKafkaError(f"{failure}: {(done.stdout + done.stderr).strip()[-500:]}")
