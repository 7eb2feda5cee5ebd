"""Compacted topics: of each key the last value is there for who reads all, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from jbodlab.storage.directory import names
from jbodlab.storage.directory.checkpoints import read_offsets
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from tests.cluster.configs import all_brokers
from tests.cluster.harness import Cluster, wait_for
from tests.cluster.scenes import Scene, Stage

pytestmark = pytest.mark.cluster

KEYS = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Table:
    """A compacted topic of one partition, and what was acknowledged of each key."""

    def __init__(self, scene: Scene, **config: str) -> None:
        self.cluster: Cluster = scene.cluster
        always = {"internal_segment_bytes": "8000", "min_cleanable_dirty_ratio": "0.01"}
        ledger = scene.topic(1, records=0, **{"cleanup_policy": "compact", **always, **config})
        self.topic = ledger.topic
        self.written: dict[bytes, bytes | None] = {}
        self.errors: list[str] = []
        self._number = 0

    def produce(self, count: int, codec: str = "none") -> None:
        """Write values, and a few deletions, and wait until all are acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "batch.size": 4_000,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        for _ in range(count):
            number = self._number = self._number + 1
            key = b"key %d" % (number % KEYS)
            value = None if number % 97 == 0 else b"%d " % number * 30
            self.written[key] = value

            def delivered(error: KafkaError | None, _: object, key: bytes = key) -> None:
                if error is not None:
                    self.errors.append(str(error))

            producer.produce(self.topic, value, key, on_delivery=delivered)
            if number % 50 == 0:
                producer.flush(60)
        if producer.flush(60):
            self.errors.append("no answer")

    def read(self) -> tuple[dict[bytes, bytes], int]:
        """Read all from the beginning; returns the last value of each key, and how many records."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": "accounts",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        found: dict[bytes, bytes] = {}
        count, is_over = 0, False
        while not is_over:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            is_over = error is not None and error.code() == KafkaError._PARTITION_EOF
            assert is_over or error is None, error
            if error is None:
                count += 1
                found[message.key()] = message.value()
                if message.value() is None:
                    del found[message.key()]
        consumer.close()
        return found, count

    def check(self) -> int:
        """Assert that the last value of each key is there; returns how many records are."""
        assert not self.errors, (len(self.errors), self.errors[:3])
        found, count = self.read()
        assert found == {key: value for key, value in self.written.items() if value is not None}
        return count

    def starts(self) -> set[int]:
        """Where the replicas begin."""
        return {
            min(names.parse_offset(path.name) for path in folder.glob("*.log"))
            for folder in self.folders()
        }

    def folders(self) -> Iterator[Path]:
        """The folders of all replicas that can be found now."""
        for broker in self.cluster.broker_ids:
            for log_dir in self.cluster.node(broker).configured_dirs:
                folder = log_dir / f"{self.topic}-0"
                if folder.is_dir():
                    yield folder

    def wait_cleaned(self) -> None:
        """Wait until every replica is clean up to its active segment."""

        def are_clean() -> bool:
            partition = (self.topic, 0)
            folders = list(self.folders())
            return len(folders) == 3 and all(
                {(tp.topic, tp.partition): offset for tp, offset in checkpoint.items()}.get(
                    partition, -1
                )
                >= max(names.parse_offset(path.name) for path in folder.glob("*.log"))
                for folder in folders
                for checkpoint in (
                    read_offsets(PosixFileSystem(), folder.parent / names.CLEANER_OFFSET_FILE),
                )
            )

        wait_for("all replicas are compacted", are_clean)

    def assert_tidy(self) -> None:
        for folder in self.folders():
            assert not [p for p in folder.iterdir() if p.suffix in (".swap", ".damaged")]


@pytest.fixture
def scene(stage: Stage) -> Iterator[Scene]:
    """A scene whose cleaners hardly rest."""
    with stage.scene() as scene:
        all_brokers(scene.cluster, log_cleaner_backoff_ms="100")
        yield scene
        all_brokers(scene.cluster, log_cleaner_backoff_ms=None)


def test_who_reads_a_compacted_topic_gets_the_last_value_of_each_key(scene: Scene) -> None:
    table = Table(scene)
    for codec in CODECS:
        table.produce(200, codec)
    table.wait_cleaned()

    assert table.check() < 500
    table.assert_tidy()
    metric = scene.metric(1, "jbodlab_log_cleaner_rounds_total")
    assert sum(value for _, value in metric) > 0
    scene.restart(*scene.cluster.broker_ids)
    assert table.check() < 500


def test_what_retention_leaves_of_a_compacted_topic_is_the_last_of_its_keys(scene: Scene) -> None:
    table = Table(scene, cleanup_policy="compact,delete", retention_bytes="9000")
    start = 0
    for _ in range(2):
        table.produce(400)
        table.wait_cleaned()
        wait_for("the oldest goes", lambda before=start: min(table.starts()) > before)
        found, count = table.read()
        assert not table.errors
        assert 0 < count < 200
        # A record that is gone is gone as a whole: nothing comes back as it was before.
        assert found.items() <= table.written.items()
        start = min(table.starts())
        scene.restart(*scene.cluster.broker_ids)
    table.assert_tidy()
