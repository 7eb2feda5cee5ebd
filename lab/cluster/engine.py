"""Engines that the nodes of a cluster run: our own servers, or a release of Apache Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lab.errors import LabError

ENGINE_VARIABLE = "JBODLAB_ENGINE"
"""Variable of the environment that names the engine where nothing else does."""

JBODLAB = "jbodlab"
FORMS = "jbodlab, kafka:RELEASE such as kafka:4.3.1, or kafka:FOLDER of an unpacked distribution"
RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-rc[0-9]+)?")
SERVER_JAR = re.compile(
    r"kafka_2\.[0-9]+-([0-9]+\.[0-9]+(?:[.-][0-9A-Za-z.-]*?)?)(?<!-sources)(?<!-test)(?<!-javadoc)\.jar"
)
CLASS_PATH_SEPARATOR = ":"
JAR_FOLDERS = ("libs", "share/java/kafka")
"""Where Apache's and Confluent's distributions have their jars."""
OLDEST = (3, 7)
"""The first release whose metadata knows log directories (KIP-858)."""
FIRST_WITH_DYNAMIC_QUORUM = (4, 0)
"""The first release whose own `server.properties` names no voters: formatting does (KIP-853)."""
CONFLUENT = re.compile(r"-c(cs|e)\b")
"""Confluent Platform 7.x and 8.x have Apache Kafka 3.x and 4.x."""
CONFLUENT_AHEAD = 4


class EngineError(LabError):
    """A text names no engine."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine.

    Attributes:
        release: Release of Apache Kafka, or that of a distribution; empty for our own servers.
        folder: An unpacked distribution, with its jars in one of `JAR_FOLDERS`.
    """

    release: str = ""
    folder: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the name of an engine.

        Raises:
            EngineError: it is none, or its folder is not that of a distribution.
        """
        if text == JBODLAB:
            return cls()
        kind, colon, rest = text.partition(":")
        if kind != "kafka" or not colon or not rest:
            raise EngineError(f"expected an engine ({FORMS}), got {text!r}")
        found = cls(rest) if RELEASE.fullmatch(rest) else cls(*_distribution(text, rest))
        if found.level < OLDEST:
            raise EngineError(
                f"engine {text}: releases before {'.'.join(map(str, OLDEST))} do not know log "
                "directories in their metadata"
            )
        return found

    @classmethod
    def written_down(cls, text: str) -> Self:
        """Return the engine of a cluster that exists; its folder may be gone meanwhile."""
        try:
            return cls.parse(text)
        except EngineError:
            return cls(".".join(map(str, (*OLDEST, 0))), Path(text.partition(":")[2]))

    def __str__(self) -> str:
        if self.folder is not None:
            return f"kafka:{self.folder}"
        return f"kafka:{self.release}" if self.release else JBODLAB

    @property
    def is_kafka(self) -> bool:
        """Whether nodes run Apache Kafka."""
        return bool(self.release)

    @property
    def level(self) -> tuple[int, int]:
        """Major and minor release of Apache Kafka, whoever built it; (0, 0) for our own servers."""
        if not self.is_kafka:
            return 0, 0
        major, minor = map(int, self.release.split("-")[0].split(".")[:2])
        return major - CONFLUENT_AHEAD if CONFLUENT.search(self.release) else major, minor

    @property
    def has_dynamic_quorum(self) -> bool:
        """Whether formatting names the voters, as is the default of the release."""
        return self.level >= FIRST_WITH_DYNAMIC_QUORUM

    @property
    def title(self) -> str:
        """Its name for people."""
        if self.folder is not None:
            return f"Apache Kafka {self.release} in {self.folder}"
        return f"Apache Kafka {self.release}" if self.release else JBODLAB

    @property
    def folder_name(self) -> str:
        """Name of the folder for the results of the engine beside those of others."""
        return re.sub("[^A-Za-z0-9.]+", "-", str(self)).strip("-")

    @property
    def revives(self) -> bool:
        """Whether a running broker takes a repaired directory back; Kafka's have to restart."""
        return not self.is_kafka

    @property
    def served_deadline_s(self) -> float:
        """How long a start may take until every broker serves."""
        return 180.0 if self.is_kafka else 60.0


def jar_folder(folder: Path) -> Path:
    """Return the folder of a distribution's jars; the usual one where there is none."""
    found = (folder / name for name in JAR_FOLDERS if (folder / name).is_dir())
    return next(found, folder / JAR_FOLDERS[0])


def _distribution(text: str, path: str) -> tuple[str, Path]:
    """Return the release of the jars of a distribution, and its folder."""
    try:
        folder = Path(path).expanduser()
        if "/" not in path and not folder.is_dir():
            raise EngineError(f"expected an engine ({FORMS}), got {text!r}")
        libs = jar_folder(folder)
        if not libs.is_dir():
            raise EngineError(f"engine {text}: there is no folder {libs}")
        names = sorted(jar.name for jar in libs.iterdir())
    except (OSError, RuntimeError) as error:
        # A user id without a user has no home.
        reason = error.strerror if isinstance(error, OSError) else error
        raise EngineError(f"engine {text}: the folder cannot be read: {reason}") from error
    if CLASS_PATH_SEPARATOR in str(folder.absolute()):
        raise EngineError(
            f"engine {text}: Java cannot read jars in a folder with {CLASS_PATH_SEPARATOR!r} in "
            "its path"
        )
    for name in names:
        if match := SERVER_JAR.fullmatch(name):
            return match[1], folder.absolute()
    raise EngineError(
        f"engine {text}: no jar in {libs} tells the release, as kafka_2.13-4.3.1.jar does"
    )


OWN = Engine()
"""Our own servers."""


def chosen(given: str | None, variables: Mapping[str, str]) -> Engine:
    """Return the engine that is given, else that of the environment, else our own.

    Raises:
        EngineError: what names it is none.
    """
    if given is not None:
        return Engine.parse(given)
    text = variables.get(ENGINE_VARIABLE, "").strip()
    try:
        return Engine.parse(text) if text else OWN
    except EngineError as error:
        raise EngineError(f"{ENGINE_VARIABLE}: {error}") from error


def compared(
    given: str | None, against: Iterable[str], variables: Mapping[str, str]
) -> list[Engine]:
    """Return the chosen engine, and those that it is compared with.

    Raises:
        EngineError: what names one is none, or two are the same.
    """
    engines = [chosen(given, variables), *map(Engine.parse, against)]
    for one in engines:
        if engines.count(one) > 1:
            raise EngineError(f"the engine {one} is named twice")
    return engines
