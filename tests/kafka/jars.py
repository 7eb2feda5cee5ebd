"""Apache Kafka's released jars, as the lab fetches them, and the programs beside this module."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lab.machine import kafka_jars
from lab.machine.kafka_jars import CACHE, RELEASE, NoKafkaError, once, release_of, require, run

__all__ = [
    "CACHE",
    "LINE_3",
    "METADATA_SHELL",
    "RELEASE",
    "NoKafkaError",
    "compiled",
    "fetched",
    "once",
    "require",
    "run",
]

LINE_3 = "3.9.1"
"""Of the line before; nothing but its client is used."""

FILE_CONNECTORS = f"connect-file-{RELEASE}"
"""Beside the jars of the release, in which the rest of Kafka Connect is."""

STREAMS_TESTS = f"streams-tests-{RELEASE}"
"""The integration tests of Kafka Streams, with JUnit."""

METADATA_SHELL = f"shell-{RELEASE}"
"""The shell that shows what is in a file of the metadata."""

ARTIFACTS = {
    RELEASE: release_of(RELEASE),
    LINE_3: release_of(LINE_3, "kafka-clients"),
    # The first with UnregisterControllerRecord; nothing but its records is used.
    "4.4.0": release_of("4.4.0", "kafka-metadata"),
    METADATA_SHELL: release_of(RELEASE, "kafka-shell"),
    FILE_CONNECTORS: release_of(RELEASE, "connect-file"),
    STREAMS_TESTS: (
        *release_of(RELEASE, "kafka-streams", "kafka-server-common"),
        *(
            f"org.apache.kafka:{artifact}:{RELEASE}:test"
            for artifact in (
                *("kafka-streams-integration-tests", "kafka-streams"),
                *("kafka-clients", "kafka-server-common"),
            )
        ),
        "org.hamcrest:hamcrest:3.0",
        "org.junit.platform:junit-platform-console-standalone:1.13.4",
    ),
}
"""Jars that are fetched, by the name of their folder, with all that they depend on."""

COMPILE_DEADLINE_S = 300
SOURCES = sorted(Path(__file__).parent.glob("*.java"))


def fetched(name: str = RELEASE, cache: Path = CACHE) -> Path:
    """Return a folder of jars; Maven fetches them where they are not there.

    Raises:
        NoKafkaError: they cannot be fetched, with the reason.
    """
    return kafka_jars.fetched(name, cache, ARTIFACTS[name])


def compiled(cache: Path = CACHE) -> Path:
    """Return the folder of this folder's Java programs, compiled.

    Raises:
        NoKafkaError: they cannot be compiled, with the reason.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
    jars = fetched(cache=cache)
    return once(cache, f"classes-{digest}", lambda folder: _compile(jars, folder))


def _compile(jars: Path, folder: Path) -> None:
    require("javac")
    run(
        "the Java programs cannot be compiled",
        *("javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-Werror"),
        *("-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(folder), *map(str, SOURCES)),
        deadline_s=COMPILE_DEADLINE_S,
    )
