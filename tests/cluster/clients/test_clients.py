"""Unmodified clients produce, consume by assignment and administer."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, Producer, TopicPartition

from tests.cluster.group_stage import committed
from tests.cluster.harness import Cluster
from tests.cluster.lab_cluster import set_property
from tests.cluster.scenes import SETTINGS, Scene, Stages

pytestmark = pytest.mark.cluster

COUNT = 2_000


class Listening(logging.Handler):
    """Remembers what a client says."""

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())


def messages() -> list[bytes]:
    return [b"message-%06d" % number for number in range(COUNT)]


def produce(cluster: Cluster, topic: str, **config: object) -> Producer:
    """Send all messages. Without acknowledgements they may be lost if the producer goes at once."""
    options = {key.replace("_", "."): value for key, value in config.items()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **options})
    for message in messages():
        producer.produce(topic, message)
    assert producer.flush(30) == 0
    return producer


def consumed(consumer: Consumer) -> list[bytes]:
    """All messages, from where the consumer begins."""
    found: list[bytes] = []
    while len(found) < COUNT:
        batch = consumer.consume(500, timeout=10)
        assert batch, f"only {len(found)} of {COUNT} arrived"
        found += [message.value() for message in batch]
    consumer.close()
    return found


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_confluent_kafka_with_each_acks(scene: Scene, acks: str) -> None:
    cluster, topic = scene.cluster, f"confluent-{acks}"
    scene.create(topic, 1, 3)
    producer = produce(cluster, topic, acks=acks)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    # librdkafka asks a coordinator that still loads once, and then no more.
    assert set(committed(cluster, "g", topic).values()) == {OFFSET_INVALID}
    # No offset given: the group has none committed, so auto.offset.reset decides.
    consumer.assign([TopicPartition(topic, 0)])
    assert consumed(consumer) == messages()
    assert len(producer) == 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_each_codec(scene: Scene, codec: str) -> None:
    cluster, topic = scene.cluster, f"codec-{codec}"
    scene.create(topic, 1, 3)
    produce(cluster, topic, enable_idempotence=True, compression_type=codec)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumed(consumer) == messages()


@pytest.mark.parametrize("release", [None, (4, 2), (4, 3)])
def test_kafka_python(scene: Scene, release: tuple[int, int] | None) -> None:
    cluster = scene.cluster
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    # It then does not ask for less than a broker of that release speaks.
    pinned = {} if release is None else {"api_version": release}
    topic = f"kafka-python-{release}".translate(str.maketrans("", "", "(), "))
    scene.create(topic, 1, 3)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), **pinned)
    for message in messages():
        producer.send(topic, message)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap.split(","),
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=10_000,
        **pinned,
    )
    consumer.assign([TopicPartition(topic, 0)])
    found = []
    for record in consumer:
        found.append(record.value)
        if len(found) == COUNT:
            break
    consumer.close()
    assert found == messages()


def test_aiokafka(scene: Scene) -> None:
    cluster = scene.cluster
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    scene.create("aiokafka", 1, 3)

    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, enable_idempotence=True)
        await producer.start()
        try:
            await asyncio.gather(
                *[await producer.send("aiokafka", message) for message in messages()]
            )
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        found: list[bytes] = []
        try:
            consumer.assign([TopicPartition("aiokafka", 0)])
            while len(found) < COUNT:
                batches = await asyncio.wait_for(consumer.getmany(timeout_ms=5_000), 20)
                found += [record.value for records in batches.values() for record in records]
        finally:
            await consumer.stop()
        return found

    assert asyncio.run(run()) == messages()


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat(scene: Scene) -> None:
    cluster = scene.cluster
    scene.create("kcat", 1, 3)
    text = b"\n".join(messages()) + b"\n"
    server = ["-b", cluster.bootstrap, "-t", "kcat"]
    produce = ["kcat", "-P", *server, "-X", "enable.idempotence=true"]
    subprocess.run(produce, input=text, check=True, timeout=60)
    consume = ["kcat", "-C", *server, "-o", "beginning", "-e", "-q"]
    found = subprocess.run(consume, check=True, capture_output=True, timeout=60)
    assert found.stdout == text


def test_kafka_python_administers(scene: Scene) -> None:
    cluster = scene.cluster
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    admin.create_topics([NewTopic("admin", 3, 3)])
    assert "admin" in admin.list_topics()
    described = admin.describe_topics(["admin"])
    assert len(described[0]["partitions"]) == 3
    brokers = admin.describe_cluster()["brokers"]
    assert sorted(broker["broker_id"] for broker in brokers) == cluster.broker_ids
    admin.delete_topics(["admin"])
    assert "admin" not in admin.list_topics()
    admin.close()


def test_a_consumer_reads_from_the_replica_in_its_rack(stages: Stages) -> None:
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with stages.of(settings={**SETTINGS, "replica.selector.class": selector}).scene() as scene:
        cluster = scene.cluster
        near, leader, *_ = cluster.broker_ids
        set_property(cluster.broker(near), "broker.rack", "near")
        scene.restart(near)
        scene.wait_all_in_sync()
        topic = scene.topic_at([[leader, near]])
        produce(cluster, topic)
        said: list[str] = []
        logger = logging.getLogger("consumer in a rack")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Listening(said))
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "client.rack": "near",
                "debug": "fetch",
            },
            logger=logger,
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumed(consumer) == messages()
        assert any("preferred replica" in line.lower() for line in said), said[:50]
