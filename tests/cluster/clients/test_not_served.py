"""Unsupported requests are refused in words, and so that an unmodified client ends with them.

A client that takes a refusal for something that passes goes on for ever, most of them in silence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbodlab.vocabulary import properties
from lab.applications import word_count
from tests.clients.members import ProgramProcess
from tests.clients.programs import FOLDER, Program, go, java
from tests.cluster.scenes import Scene
from tests.kafka.jars import RELEASE, NoKafkaError

pytestmark = [
    pytest.mark.cluster,
    # A library that is compiled takes its time, once.
    pytest.mark.timeout(900),
]

ENDS_S = 60.0
"""Most end at once; a JVM on a busy machine needs its time to begin."""

NO_SHARE_GROUPS = "share group"
CODE = "UNSUPPORTED_VERSION"
"""The rest of the words in libraries that show codes only."""


@pytest.fixture
def running() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def refusal(running: ExitStack, command: list[str], *arguments: str) -> str:
    """Output of a program that ends by itself, and not well."""
    program = ProgramProcess(command, *arguments)
    running.callback(program.close)
    assert program.ends(ENDS_S) != 0, program
    return repr(program)


def test_a_python_client_ends_with_the_reason(scene: Scene, running: ExitStack) -> None:
    topic = scene.topic(1, records=0).topic
    command = [sys.executable, str(FOLDER / "python" / "refused.py")]
    assert "ShareGroupHeartbeat fatal error" in refusal(
        running, command, scene.cluster.bootstrap, topic
    )


OTHERS: list[tuple[str, Program, str]] = [
    ("java", java(RELEASE, main="NotServed"), NO_SHARE_GROUPS),
    ("franz-go", go("refused"), CODE),
]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param(*row[1:], id=row[0], marks=() if row[1].release is None else pytest.mark.kafka)
        for row in OTHERS
    ],
)
def test_other_clients_end_with_the_reason(
    scene: Scene, running: ExitStack, program: Program, words: str
) -> None:
    try:
        command = program.command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    topic = scene.topic(1, records=0).topic
    assert words in refusal(running, command, scene.cluster.bootstrap, topic)


@pytest.mark.kafka
@pytest.mark.soak
def test_streams_groups_end_with_the_reason(
    scene: Scene, running: ExitStack, tmp_path: Path
) -> None:
    try:
        command = word_count.command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    topics = scene.topic(1, records=0).topic, scene.topic(1, records=0).topic
    settings = {
        "bootstrap.servers": scene.cluster.bootstrap,
        "application.id": "not-served",
        "state.dir": str(tmp_path),
        "group.protocol": "streams",
    }
    (tmp_path / "settings").write_text(properties.render(settings), "utf-8")
    assert "streams" in refusal(running, command, str(tmp_path / "settings"), *topics)
    made = [name for name in scene.cluster.image().topics.by_name if name.startswith("not-served")]
    if made:
        scene.delete(*made)
