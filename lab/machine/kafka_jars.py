"""Apache Kafka's released jars, fetched with Maven once for all of this user.

All is in one folder, by release. Readers need no lock: a folder has its name only when it is whole.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jbodlab.cli import lab_state
from lab.errors import LabError

RELEASE = "4.3.1"
"""The release whose servers are compared with ours."""
ARTIFACTS = ("kafka_2.13", "kafka-tools")
CACHE = lab_state.cache_dirs(os.environ, os.geteuid())[0] / "kafka"

FETCH_DEADLINE_S = 600
INSTALLED_BY = {
    "java": "Apache Kafka needs Java 17, such as Debian's openjdk-17-jre-headless",
    "javac": "Java programs are compiled once by a JDK, such as Debian's openjdk-17-jdk-headless",
    "mvn": "Maven fetches the jars once (Debian's maven); or name a folder with them, kafka:FOLDER",
}
DEPENDENCY = (
    "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version>{more}</dependency>"
)
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>jbodlab</groupId><artifactId>jars</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>
"""

JAVA_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")

COLOURS = re.compile("\x1b\\[[0-9;]*m")
PICKED_UP = re.compile(r"(NOTE: )?Picked up |Error: (Could not create the Java|A fatal exception)")
REASONS = (
    re.compile(r"Could not find artifact \S+"),
    re.compile(r"Could not transfer artifact .*"),
    re.compile(r"(?<=\[ERROR\] ).*"),
    re.compile(r"(?<=Exception in thread \"main\" ).*"),
    re.compile(r"\S*(Exception|Error): .*"),
)
"""Parts of a line that has a reason, the most telling first."""


class NoKafkaError(LabError):
    """Apache Kafka's jars cannot be had or used on this machine."""


def fetched(
    name: str = RELEASE, cache: Path = CACHE, artifacts: Sequence[str] | None = None
) -> Path:
    """Return a folder of jars; Maven fetches them where they are not there.

    Args:
        name: A release of Apache Kafka, or what else the folder is called after.
        cache: Where it is.
        artifacts: `group:artifact:version`, or with the classifier of a jar behind that; each comes
            with all that it depends on. None: what servers and tools of the release are in.

    Raises:
        NoKafkaError: they cannot be fetched, with the reason.
    """
    require("java")
    wanted = release_of(name) if artifacts is None else artifacts
    return once(cache, f"jars-{name}", lambda folder: _fetch(wanted, folder))


def release_of(release: str, *artifacts: str) -> tuple[str, ...]:
    """Name artifacts of a release of Apache Kafka as Maven does, and a log for them that is silent.

    Args:
        release: The release.
        artifacts: Those of servers and tools where none is named.
    """
    named = [f"org.apache.kafka:{artifact}:{release}" for artifact in artifacts or ARTIFACTS]
    return (*named, "org.slf4j:slf4j-nop:1.7.36")


def once(cache: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache that is made whole, by one process, if it is not there."""
    folder = cache / name
    _check(cache)
    if not folder.exists():
        with _locked(cache):
            if not folder.exists():
                unfinished = cache / f"{name}.unfinished"
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                make(unfinished)
                unfinished.rename(folder)
    return folder


def java(program: str = "java") -> str:
    """Return what runs Java, or its compiler: that of JAVA_HOME where it is set."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / program) if home else program


def require(program: str) -> None:
    """Raise NoKafkaError where a program is not installed."""
    named = java(program) if program in ("java", "javac") else program
    if shutil.which(named) is None and named != program:
        raise NoKafkaError(f"JAVA_HOME {os.environ['JAVA_HOME']} has no bin/{program}")
    if shutil.which(named) is None:
        by = f": {INSTALLED_BY[program]}" if program in INSTALLED_BY else ""
        raise NoKafkaError(f"{program} is not installed{by}")


def run(failure: str, *command: str, deadline_s: float) -> None:
    """Run a command that has to succeed; NoKafkaError begins with `failure` if it does not."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoKafkaError(f"{failure}: it took longer than {deadline_s:.0f} s") from error
    except OSError as error:
        raise NoKafkaError(f"{failure}: {error}") from error
    if done.returncode:
        raise NoKafkaError(f"{failure}: {reason_in(done.stderr + done.stdout)}{of_variables()}")


def of_variables() -> str:
    """Return which variables of others give every JVM its options, behind what a JVM has said."""
    found = [name for name in JAVA_VARIABLES if os.environ.get(name)]
    return f" (options of {' and '.join(found)} are in force)" if found else ""


def reason_in(output: str) -> str:
    """Return the line of the output of Maven or of a Java program that says why it failed."""
    lines = [line for line in map(str.strip, COLOURS.sub("", output).splitlines()) if line]
    # The JVM says which variables it reads, and that it ends, around what is wrong.
    lines = [line for line in lines if not PICKED_UP.match(line)] or lines
    for sign in REASONS:
        for line in lines:
            if match := sign.search(line):
                return match[0].removesuffix(" -> [Help 1]")
    return lines[-1] if lines else "it says nothing"


def _check(cache: Path) -> None:
    """See that the folder is there, and that nobody else has put programs into it."""
    try:
        reason = lab_state.make_cache(cache, os.geteuid())
    except OSError as error:
        reason = str(error)
    if reason:
        raise NoKafkaError(f"no folder for Apache Kafka's jars: {cache}: {reason}")


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One process at a time; the others wait for as long as it may take, which has an end."""
    with (cache / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _dependency(group: str, artifact: str, version: str, classifier: str = "") -> str:
    more = f"<classifier>{classifier}</classifier>" if classifier else ""
    return DEPENDENCY.format(group=group, artifact=artifact, version=version, more=more)


def _fetch(artifacts: Sequence[str], folder: Path) -> None:
    require("mvn")
    dependencies = "".join(_dependency(*each.split(":")) for each in artifacts)
    pom = folder / "pom.xml"
    pom.write_text(POM.format(dependencies=dependencies))
    run(
        f"Maven cannot fetch {artifacts[0]} (once it needs a network; or name a folder with the "
        "jars, kafka:FOLDER)",
        *("mvn", "-q", "-B", "-f", str(pom)),
        *("dependency:copy-dependencies", f"-DoutputDirectory={folder}"),
        deadline_s=FETCH_DEADLINE_S,
    )
