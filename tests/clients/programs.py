"""One program for each client library: a member of a consumer group, built once for this user.

A program is called with bootstrap servers, topic, group and a mode: `classic` or `consumer` name
the protocol with which it consumes the topic from the beginning, and commits what it has consumed
again and again. It prints

    {"event": "assigned", "partitions": [0, 2]}                      all that it has from now on
    {"event": "record", "partition": 0, "offset": 7, "value": "x"}
    {"event": "committed", "offsets": {"0": 8}}                      what was acknowledged
    {"event": "error", "message": "..."}                             what it tries again

one event a line. With the mode `default` it is a consumer as its library makes it that is told no
more than where to begin: it prints records and errors. With `produce` the group is a rate, and it
writes the numbers from 0 on, so many a second, as its library does unless told otherwise, except
that every replica in sync has to have what is acknowledged. It prints what it gives up as errors,
and

    {"event": "acknowledged", "value": "17"}

With `stay`, which only kafka-go knows, it does the same, and never asks again who leads.

It leaves its group at the line `leave` on its standard input, or at the end of
that, and ends with code 0. An error that its library takes for fatal ends it with another code.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from lab.machine.kafka_jars import require, run
from tests.kafka.jars import CACHE, LINE_3, RELEASE, NoKafkaError, fetched, once
from tests.kafka.tools import OPTIONS

FOLDER = Path(__file__).parent
FETCH_DEADLINE_S = 300
BUILD_DEADLINE_S = 600
FRANZ = "github.com/twmb/franz-go/pkg/kgo"


class BuildError(AssertionError):
    """A program does not compile though its library is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How one library's member is built and called.

    In the commands `{built}` is the folder in which it is built, `{jars}` that of the release.

    Attributes:
        sources: Folder of its sources, beside this module.
        tools: Programs without which it can neither be built nor run.
        fetch: Asks a registry for the library; where that fails there is nothing to test.
        build: Has to succeed then; empty where nothing is compiled.
        run: The command, with the arguments of every program after it.
        release: Of Apache Kafka, whose own client this is: the name of a folder of jars.
        protocol: Of the group: `classic` or `consumer`.
    """

    sources: str
    tools: tuple[str, ...]
    fetch: tuple[str, ...] = ()
    build: tuple[str, ...] = ()
    run: tuple[str, ...]
    release: str | None = None
    protocol: str = "classic"

    def command(self, cache: Path = CACHE) -> list[str]:
        """Return what runs it, without its arguments; it is built where it is not there.

        Raises:
            NoKafkaError: a tool or the library is not to be had here, with the reason.
            BuildError: it does not compile.
        """
        for tool in self.tools:
            require(tool)
        jars = None if self.release is None else fetched(self.release, cache)
        built = once(cache, self._folder(), lambda folder: self._make(folder, jars))
        return _filled(self.run, built, jars)

    def _folder(self) -> str:
        """Name its folder in the cache after all that goes into it."""
        digest = hashlib.sha256(repr((self.fetch, self.build, self.release)).encode())
        for path in sorted((FOLDER / self.sources).rglob("*")):
            if path.is_file():
                digest.update(path.read_bytes())
        return f"member-{self.sources}-{digest.hexdigest()[:16]}"

    def _make(self, folder: Path, jars: Path | None) -> None:
        shutil.copytree(FOLDER / self.sources, folder, dirs_exist_ok=True)
        if self.fetch:
            what = f"the libraries of {self.sources} cannot be fetched"
            run(what, *_filled(self.fetch, folder, jars), deadline_s=FETCH_DEADLINE_S)
        if self.build:
            what = f"{self.sources} does not compile"
            try:
                run(what, *_filled(self.build, folder, jars), deadline_s=BUILD_DEADLINE_S)
            except NoKafkaError as error:
                raise BuildError(str(error)) from error


def _filled(words: Sequence[str], built: Path, jars: Path | None) -> list[str]:
    return [word.format(built=built, jars=jars) for word in words]


def java(release: str, protocol: str = "", *, sources: str = "java", main: str) -> Program:
    """Return a program of Apache Kafka's own client."""
    class_path = "{built}:{jars}/*"
    return Program(
        sources=sources,
        tools=("java", "javac"),
        build=(
            *("javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none", "-Werror"),
            *("-encoding", "UTF-8", "-cp", class_path, "-d", "{built}", f"{{built}}/{main}.java"),
        ),
        run=("java", *OPTIONS, "-cp", class_path, main),
        release=release,
        protocol=protocol,
    )


def node(script: str) -> Program:
    """Return a program of kafkajs."""
    return Program(
        sources="node",
        tools=("node", "npm"),
        fetch=("npm", "--prefix", "{built}", "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
        run=("node", f"{{built}}/{script}"),
    )


def go(package: str, protocol: str = "classic") -> Program:
    """Return a program of a package below `go`."""
    # A package that `go list` has seen is in the cache of modules: only this program's, not all of
    # go.mod.
    return Program(
        sources="go",
        tools=("go",),
        fetch=("go", "-C", "{built}", "list", "-buildvcs=false", "-deps", f"./{package}"),
        build=("go", "-C", "{built}", "build", "-buildvcs=false", "-o", "bin/", f"./{package}"),
        run=(f"{{built}}/bin/{package}",),
        protocol=protocol,
    )


FRANZ_TESTS = Program(
    sources="go",
    tools=("go",),
    fetch=("go", "-C", "{built}", "list", "-buildvcs=false", "-deps", "-test", FRANZ),
    build=("go", "-C", "{built}", "test", "-buildvcs=false", "-c", "-o", "bin/kgo.test", FRANZ),
    run=("{built}/bin/kgo.test",),
)
"""The tests that franz-go brings along, as a program; `KGO_SEEDS` names the brokers."""


def librdkafkas_example(name: str) -> Program:
    """Return an example of librdkafka's own sources, linked to the library of confluent-kafka.

    Raises:
        NoKafkaError: confluent-kafka was built with a librdkafka of the system.
    """
    wheel = metadata.distribution("confluent-kafka")
    found = [path for path in wheel.files or () if path.match("*.libs/librdkafka-*")]
    if not found:
        raise NoKafkaError("confluent-kafka has no librdkafka of its own here")
    library = Path(str(wheel.locate_file(found[0]))).resolve()
    sources = "{built}/vendor/rdkafka-sys/librdkafka"
    manifest = ("--manifest-path", "{built}/Cargo.toml")
    return Program(
        sources="rust",
        tools=("cargo", "cc"),
        fetch=("cargo", "vendor", "--quiet", *manifest, "{built}/vendor"),
        build=(
            *("cc", f"{sources}/examples/{name}.c", f"-I{sources}/src", str(library)),
            *("-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{library.parent}"),
            *("-o", f"{{built}}/{name}"),
        ),
        run=(f"{{built}}/{name}",),
    )


def _python(library: str) -> Program:
    return Program(sources="python", tools=(), run=(sys.executable, "{built}/member.py", library))


def _rust(protocol: str) -> Program:
    manifest = ("--manifest-path", "{built}/Cargo.toml")
    return Program(
        sources="rust",
        tools=("cargo", "cc", "make"),
        fetch=("cargo", "fetch", "--quiet", *manifest),
        build=("cargo", "build", "--quiet", "--offline", *manifest),
        run=("{built}/target/debug/member",),
        protocol=protocol,
    )


PROGRAMS = {
    "java": java(RELEASE, "classic", main="Member"),
    "java-848": java(RELEASE, "consumer", main="Member"),
    "java-3": java(LINE_3, "classic", main="Member"),
    "franz-go": go("franz"),
    "franz-go-848": go("franz", "consumer"),
    "sarama": go("sarama"),
    "kafka-go": go("kafkago"),
    "kafkajs": node("member.js"),
    "rdkafka": _rust("classic"),
    "rdkafka-848": _rust("consumer"),
}
"""By the name of the library, and of the protocol if it is that of KIP-848."""

BY_DEFAULT = {
    **{name: _python(name) for name in ("librdkafka", "kafka-python", "aiokafka")},
    **{name: PROGRAMS[name] for name in ("java", "franz-go", "sarama", "kafka-go", "kafkajs")},
}
"""Those that know the modes `default` and `produce`."""
