"""Transactions of client libraries: what is committed is read, what is aborted is not."""

from __future__ import annotations

import sys

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.clients.members import ProgramProcess
from tests.clients.programs import FOLDER, Program, go, java, node
from tests.cluster.scenes import Scene
from tests.kafka.jars import RELEASE, NoKafkaError

pytestmark = [
    pytest.mark.cluster,
    # A library that is compiled takes its time, once.
    pytest.mark.timeout(900),
]

ENDS_S = 120.0
"""Most end at once; a JVM on a busy machine needs its time to begin."""

OTHERS = {
    "java": java(RELEASE, main="Transactional"),
    "franz-go": go("transactional"),
    "kafkajs": node("transactional.js"),
}


def run(command: list[str], scene: Scene, *library: str) -> list[bytes | None]:
    """Let a program make its two transactions; what a consumer of committed records reads."""
    topic = scene.topic(1, 3, records=0).topic
    program = ProgramProcess(command, scene.cluster.bootstrap, topic, topic, *library)
    try:
        assert program.ends(ENDS_S) == 0, program
    finally:
        program.close()
    consumer = Consumer(
        {
            "bootstrap.servers": scene.cluster.bootstrap,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, found
            if message.error() is not None:
                # The end of the partition.
                return found
            found.append(message.value())
    finally:
        consumer.close()


@pytest.mark.parametrize("library", ["librdkafka", "kafka-python", "aiokafka"])
def test_python_clients_commit_and_abort(scene: Scene, library: str) -> None:
    command = [sys.executable, str(FOLDER / "python" / "transactional.py")]
    assert run(command, scene, library) == [b"kept"]


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=name, marks=() if program.release is None else pytest.mark.kafka)
        for name, program in OTHERS.items()
    ],
)
def test_other_clients_commit_and_abort(scene: Scene, program: Program) -> None:
    try:
        command = program.command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    assert run(command, scene) == [b"kept"]
