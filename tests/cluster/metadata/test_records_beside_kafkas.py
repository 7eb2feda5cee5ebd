"""One story on brokers of Apache Kafka and on these: the metadata logs hold the same records.

Each step is a command, or something that happens to a broker. When it has ended and nothing is
written any more, the records since the step before are compared, without regard to their order:
what two brokers do at the same time has none. Ids, epochs of brokers, times and random salts are
replaced by names; which of a broker's directories a replica gets is its own choice.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from jbodlab.metadata.log.batches import decode_batch
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.json_text import to_json
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, running, wait_for
from tests.kafka.servers import SHORT_LIVED, KafkaServers
from tests.kafka.tools import CONFIGS, FEATURES, LEADER_ELECTION, REASSIGN, TOPICS, KafkaTools

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.soak,
    pytest.mark.timeout(1_200),
]

DEADLINE_S = 120.0
QUIET_S = 3.0
SETTINGS = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000"}
MOVE = {"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 3]}]}

ALTER = "--alter --entity-type"
STORY: list[tuple[Any, ...]] = [
    ("start",),
    (TOPICS, "--create --topic a --replica-assignment 1:2,2:3,3:1"),
    (TOPICS, "--create --topic b --replica-assignment 1:2:3 --config min.insync.replicas=2"),
    (TOPICS, "--create --topic c --replica-assignment 1:2 --config min.insync.replicas=2"),
    (TOPICS, "--alter --topic a --partitions 5 --replica-assignment 1:2,2:3,3:1,1:3,2:1"),
    (CONFIGS, "--alter --topic a --add-config retention.ms=1000000,segment.ms=500000"),
    (CONFIGS, "--alter --topic a --delete-config retention.ms"),
    (CONFIGS, "--alter --topic a --add-config min.insync.replicas=2"),
    (CONFIGS, "--alter --broker-defaults --add-config min.insync.replicas=2"),
    (CONFIGS, "--alter --broker-defaults --add-config log.cleaner.threads=2"),
    (CONFIGS, "--alter --broker 2 --add-config log.cleaner.threads=2,message.max.bytes=2000000"),
    (CONFIGS, "--alter --broker 2 --delete-config message.max.bytes"),
    (CONFIGS, f"{ALTER} users --entity-name u --add-config producer_byte_rate=100000"),
    (CONFIGS, "--alter --client x --add-config consumer_byte_rate=100000,request_percentage=50"),
    (CONFIGS, f"{ALTER} users --entity-name u --delete-config producer_byte_rate"),
    (CONFIGS, "--alter --ip 127.0.0.9 --add-config connection_creation_rate=9"),
    (CONFIGS, f"{ALTER} groups --entity-name g --add-config consumer.session.timeout.ms=50000"),
    (CONFIGS, f"{ALTER} client-metrics --entity-name m --add-config interval.ms=60000,metrics=[x]"),
    (CONFIGS, f"{ALTER} users --entity-name s --add-config SCRAM-SHA-256=[password=p]"),
    ("produce",),
    ("stop", 3),
    ("start", 3),
    (LEADER_ELECTION, "--election-type preferred --all-topic-partitions"),
    ("kill", 2),
    ("start", 2),
    (LEADER_ELECTION, "--election-type preferred --all-topic-partitions"),
    ("stop", 2),
    ("stop", 1),
    ("start", 1),
    ("start", 2),
    (LEADER_ELECTION, "--election-type preferred --all-topic-partitions"),
    (REASSIGN, "--execute --reassignment-json-file {move}"),
    (FEATURES, "downgrade --feature eligible.leader.replicas.version=0"),
    ("stop", 2),
    ("start", 2),
    (FEATURES, "upgrade --feature eligible.leader.replicas.version=1"),
    (FEATURES, "downgrade --feature transaction.version=1"),
    (FEATURES, "upgrade --feature transaction.version=2"),
    (TOPICS, "--delete --topic a"),
    ("stop", 1),
    ("stop", 2),
    ("stop", 3),
]
NAMED = [
    # New clusters have no level of what is not supported here.
    '"featureLevel": 1, "name": "share.version"',
    '"featureLevel": 1, "name": "streams.version"',
    # Lowered levels leave no eligible replicas behind; Kafka lets them stay in the metadata.
    '"topicName": ""}, "type": "CLEAR_ELR_RECORD"',
]
"""Parts of the records that only one of the two writes, as `differences-from-kafka.md` says."""

Records = list[tuple[str, Counter[str]]]


class Log:
    """The records of a controller's log, in a form that does not depend on the cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._names: dict[str, str] = {}

    def taken(self) -> Counter[str]:
        """Return what has been written since the last call."""
        found = self._records()
        new, self._count = found[self._count :], len(found)
        return Counter(map(self._normal, new))

    def count(self) -> int:
        return len(self._records())

    def _records(self) -> list[dict[str, Any]]:
        found = []
        for path in sorted(self._folder.glob("*.log")):
            data = path.read_bytes()
            for position, header in iterate_headers(data):
                batch = decode_batch(data, position, header)
                for _, (record, version) in batch.data_records:
                    if not isinstance(record, NoOpRecord):
                        fields = to_json(record, version)
                        found.append({"type": record.NAME, "version": version, "data": fields})
        return found

    def _normal(self, record: dict[str, Any]) -> str:
        data, kind = record["data"], record["type"]
        if kind == "TOPIC_RECORD":
            self._names[data["topicId"]] = data["name"]
        if "topicId" in data:
            data["topicId"] = self._names[data["topicId"]]
        for name in ("brokerEpoch", "incarnationId", "epoch", "salt", "storedKey", "serverKey"):
            if name in data:
                data[name] = name
        for name in ("directories", "logDirs"):
            if data.get(name):
                data[name] = name
        if isinstance(data.get("features"), list):
            data["features"].sort(key=lambda feature: feature["name"])
        for end_point in data.get("endPoints", ()):
            end_point["port"] = "port"
        return json.dumps(record, sort_keys=True)


def play(cluster: Cluster, tools: KafkaTools, folder: Path) -> Records:
    """Play the story on a new cluster; returns what each step has written."""
    log, told = Log(cluster.controller.metadata_dir / METADATA_DIR_NAME), []
    move = folder / "move.json"
    move.write_text(json.dumps(MOVE))
    for verb, *words in STORY:
        title = f"{verb.rpartition('.')[2]} {' '.join(map(str, words))}"
        match verb:
            case "start" if words:
                cluster.broker(words[0]).start()
                cluster.wait_served(cluster.broker(words[0]))
            case "start":
                pass
            case "stop":
                cluster.broker(words[0]).stop()
            case "kill":
                cluster.broker(words[0]).kill()
                wait_for(
                    "it is fenced", lambda number=words[0]: _is_fenced(cluster, number), DEADLINE_S
                )
            case "produce":
                _produce(cluster)
            case _:
                options = str(words[0]).format(move=move).split()
                done = tools.run(verb, "--bootstrap-server", cluster.bootstrap, *options)
                assert done.code == 0, (title, done)
        _wait_quiet(log)
        told.append((title, log.taken()))
    return told


def _is_fenced(cluster: Cluster, broker: int) -> bool:
    return cluster.image().cluster.brokers[broker].fenced


def _produce(cluster: Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for topic in "abc":
        producer.produce(topic, topic, partition=0)
    assert producer.flush(60) == 0


def _wait_quiet(log: Log) -> None:
    """Wait until no record has come for a while."""
    end, count, since = time.monotonic() + DEADLINE_S, -1, time.monotonic()
    while time.monotonic() - since < QUIET_S:
        assert time.monotonic() < end, "records are written without an end"
        if (now := log.count()) != count:
            count, since = now, time.monotonic()
        time.sleep(0.2)


def differences(ours: Records, theirs: Records) -> tuple[int, int, list[str]]:
    """Return how many records are equal, how many there are, and the others as lines."""
    equal = total = 0
    lines: list[str] = []
    for (title, mine), (_, its) in zip(ours, theirs, strict=True):
        equal += (mine & its).total()
        total += max(mine.total(), its.total())
        for whose, more in (("ours", mine - its), ("Kafka's", its - mine)):
            lines += [f"{title}: {whose} {count} x {text}" for text, count in more.items()]
    return equal, total, lines


def test_a_story_writes_the_records_that_kafkas_controller_writes(kafka_tools: KafkaTools) -> None:
    root, played = make_folder(), []
    try:
        for name, servers in (("ours", None), ("kafkas", KafkaServers(kafka_tools, SHORT_LIVED))):
            options = {} if servers is None else {"servers": servers}
            folder = root / name
            with running(folder, brokers=3, dirs=2, settings=SETTINGS, **options) as cluster:
                played.append(play(cluster, kafka_tools, folder))
    finally:
        remove_folder(root)

    equal, total, lines = differences(*played)

    others = [line for line in lines if not any(part in line for part in NAMED)]
    assert len(others) <= total / 100, f"{equal} of {total} are equal\n" + "\n".join(others)
    assert len(lines) - len(others) == len(NAMED)
