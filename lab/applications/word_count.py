"""Kafka Streams' word count, `WordCount.java`, called with a file of settings and two topics."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lab.machine import kafka_jars
from lab.machine.kafka_jars import RELEASE, NoKafkaError

SOURCE = Path(__file__).with_name("WordCount.java")
COMPILE_DEADLINE_S = 300.0
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Compile quickly, not well; collect garbage on one thread; map classes where they can be."""
HEAP = "-Xmx256m"


def command(release: str = RELEASE) -> list[str]:
    """Return what runs it, without its arguments; fetched and compiled once where it is not there.

    Args:
        release: Of Kafka Streams.

    Raises:
        NoKafkaError: Java, its compiler, Maven or the jars are missing, with the reason.
    """
    if reason := refusal():
        raise NoKafkaError(reason)
    artifacts = kafka_jars.release_of(release, "kafka-streams")
    jars = kafka_jars.fetched(f"streams-{release}", artifacts=artifacts)
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    classes = kafka_jars.once(
        kafka_jars.CACHE, f"word-count-{release}-{digest}", lambda folder: _compile(jars, folder)
    )
    options = (*QUICK_START, HEAP, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    return [kafka_jars.java(), *options, "-cp", f"{classes}:{jars}/*", SOURCE.stem]


def refusal() -> str:
    """Return which program it needs that is not installed; empty if all are."""
    try:
        kafka_jars.require("java")
        kafka_jars.require("javac")
    except NoKafkaError as error:
        return str(error)
    return ""


def _compile(jars: Path, folder: Path) -> None:
    kafka_jars.run(
        "the word count cannot be compiled",
        *(
            kafka_jars.java("javac"),
            "-J-XX:TieredStopAtLevel=1",
            "-J-XX:+UseSerialGC",
            "-proc:none",
            "-Werror",
        ),
        *("-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(folder), str(SOURCE)),
        deadline_s=COMPILE_DEADLINE_S,
    )
