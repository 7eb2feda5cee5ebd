"""The level of transaction.version changes under running clients; each gets what it speaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.kafka_wire.api_table import ApiKey
from tests.cluster.harness import Cluster, running, wait_for
from tests.cluster.shared_directories import SETTINGS
from tests.cluster.transactional_requests import Broker, RequestProducer
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import FEATURES, PRODUCER_SPEED, KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300)]

TOPIC, LEVEL = "t", "transaction.version"
LONG_S = 30.0
LOAD = "--num-records 20 --record-size 10 --throughput -1"


@pytest.fixture(params=["ours", pytest.param("Kafka's", marks=pytest.mark.soak)])
def cluster(
    request: pytest.FixtureRequest, cluster_root: Path, kafka_tools: KafkaTools
) -> Iterator[Cluster]:
    theirs = {"servers": KafkaServers(kafka_tools, SHORT_LIVED)}
    settings = {**SETTINGS, "offsets.topic.replication.factor": "1"}
    options = theirs if request.param != "ours" else {}
    with running(cluster_root, brokers=1, dirs=1, settings=settings, **options) as found:
        found.create_topic(TOPIC, 1, 1)
        yield found


class Level:
    """The finalized level, changed by Kafka's tool."""

    def __init__(self, cluster: Cluster, tools: KafkaTools) -> None:
        self._at = ("--bootstrap-server", cluster.bootstrap)
        self._tools = tools

    def set(self, how: str, level: int) -> None:
        done = self._tools.run(FEATURES, *self._at, how, "--feature", f"{LEVEL}={level}")
        assert done.code == 0, done
        wait_for("the level", lambda: self.get() == level, 10, last_seen=self.get)

    def get(self) -> int:
        lines = self._tools.run(FEATURES, *self._at, "describe").lines
        (found,) = (line.split() for line in lines if line.startswith(f"Feature: {LEVEL} "))
        return int(found[found.index("FinalizedVersionLevel:") + 1])


def described(broker: Broker, transactional_id: str) -> tuple[str, int]:
    """The state of a transactional id, and the epoch of its producer."""
    answer = broker.until_done(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=(transactional_id,)
    )
    (found,) = answer.transaction_states
    return found.transaction_state, found.producer_epoch


def committed(broker: Broker, transactional_id: str, epoch: int) -> None:
    """Wait until a transaction is committed; the epoch is that of its producer."""
    expected = "CompleteCommit", epoch
    wait_for(
        f"the commit of {transactional_id}",
        lambda: described(broker, transactional_id) == expected,
        20,
        last_seen=lambda: described(broker, transactional_id),
    )


def test_each_client_gets_the_version_that_it_speaks_while_the_level_changes(
    cluster: Cluster, kafka_tools: KafkaTools
) -> None:
    level = Level(cluster, kafka_tools)
    assert level.get() == 2
    level.set("downgrade", 0)
    with Broker(cluster.node(1).port) as broker:
        librdkafka = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "old", "log_level": 0}
        )
        librdkafka.init_transactions(LONG_S)
        before = RequestProducer(broker, "before", 0).begin()

        # A transaction that was begun on one level ends on the next.
        for higher in (1, 2):
            librdkafka.begin_transaction()
            librdkafka.produce(TOPIC, str(higher))
            assert librdkafka.flush(LONG_S) == 0
            before.write(TOPIC, [0], str(higher))
            assert java_commits(cluster, kafka_tools, broker, f"java {higher}") == 0

            level.set("upgrade", higher)
            assert described(broker, "before") == described(broker, "old") == ("Ongoing", 0)
            librdkafka.commit_transaction(LONG_S)
            before.end(commit=True)
            committed(broker, "before", 0)
            committed(broker, "old", 0)

        # From now on each end has the next epoch, for those clients that know of it.
        assert java_commits(cluster, kafka_tools, broker, "java") > 0
        before.speak(2)
        for epoch in (1, 2):
            before.write(TOPIC, [0], "after")
            before.end(commit=True)
            assert before.producer_epoch == epoch
            committed(broker, "before", epoch)
        librdkafka.begin_transaction()
        librdkafka.produce(TOPIC, "2")
        librdkafka.commit_transaction(LONG_S)
        committed(broker, "old", 0)

        # A transaction of version 2 ends as one on a lower level.
        before.write(TOPIC, [0], "down")
        level.set("downgrade", 1)
        before.end(commit=True)
        committed(broker, "before", 3)
        assert java_commits(cluster, kafka_tools, broker, "java again") == 0


def java_commits(cluster: Cluster, tools: KafkaTools, broker: Broker, name: str) -> int:
    """Let a new Java client commit transactions; returns the epoch that it has afterwards."""
    arguments = f"--bootstrap-server {cluster.bootstrap} --topic {TOPIC} {LOAD}".split()
    done = tools.run(PRODUCER_SPEED, *arguments, "--transactional-id", name)
    assert done.code == 0, done
    assert "20 records sent" in done.out
    wait_for("its commit", lambda: described(broker, name)[0] == "CompleteCommit", 20)
    return described(broker, name)[1]
