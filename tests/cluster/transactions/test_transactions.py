"""Transactions of an unmodified client: committed, aborted, fenced, too long, on dying disks."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC
from lab.cluster.log_dir_states import offline, revive
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, running, wait_for
from tests.cluster.invariants import settle
from tests.cluster.transactional_commands import told
from tests.kafka.tools import TRANSACTIONS, KafkaTools

pytestmark = pytest.mark.cluster

TOPIC, PARTITIONS = "orders", 3
COORDINATORS = 4
SETTINGS = {
    "transaction.state.log.num.partitions": str(COORDINATORS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "60000",
}
LONG_S = 30.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    root = make_folder()
    try:
        with running(root / "cluster", brokers=3, dirs=3, settings=SETTINGS) as found:
            found.create_topic(TOPIC, PARTITIONS, 3)
            yield found
    finally:
        remove_folder(root)


@contextmanager
def producing(cluster: Cluster, name: str, timeout_ms: int = 60_000) -> Iterator[Producer]:
    """A producer that may begin transactions."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(LONG_S)
    yield producer
    producer.purge()


@contextmanager
def broken(cluster: Cluster, topic: str, partition: int) -> Iterator[None]:
    """The directory of a leader fails; in the end it is revived, and everything is in sync."""
    leader = cluster.leader(topic, partition)
    log_dir = leader.log_dir_of(topic, partition)
    with log_dir.fails("permission"):
        # Its open files go on: only a probe finds it.
        wait_for("the failure", lambda: [entry.path for entry in offline(leader)])
        yield
    assert revive(leader, str(log_dir.path)) == ""
    settle(cluster)


def write(producer: Producer, text: str) -> None:
    """Begin a transaction, and write a record to each partition."""
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, f"{text} {partition}", partition=partition)
    assert producer.flush(LONG_S) == 0


def committed(cluster: Cluster, text: str) -> list[str]:
    """The records of a test that readers of committed ones get: all up to a last transaction."""
    with producing(cluster, f"last of {text}") as producer:
        write(producer, f"last-of-{text}")
        producer.commit_transaction(LONG_S)
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: list[str] = []
    ends = {f"last-of-{text} {partition}" for partition in range(PARTITIONS)}

    def all_read() -> bool:
        found.extend((each.value() or b"").decode() for each in consumer.consume(100, timeout=0.1))
        return ends <= set(found)

    wait_for("all committed records", all_read)
    consumer.close()
    return sorted(each for each in found if each.startswith(text))


def all_of(*texts: str) -> list[str]:
    return sorted(f"{text} {partition}" for text in texts for partition in range(PARTITIONS))


def test_txn_basic_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: Cluster) -> None:
    group = {"bootstrap.servers": cluster.bootstrap, "group.id": "basic"}
    with producing(cluster, "basic") as producer, Consumer(group) as consumer:
        members = consumer.consumer_group_metadata()
        for number in range(4):
            write(producer, f"basic-{number}")
            offset = TopicPartition(TOPIC, 0, number)
            producer.send_offsets_to_transaction([offset], members, LONG_S)
            if number % 2:
                producer.abort_transaction(LONG_S)
            else:
                producer.commit_transaction(LONG_S)

        (kept,) = consumer.committed([TopicPartition(TOPIC, 0)], LONG_S)
        assert kept.offset == 2
    assert committed(cluster, "basic") == all_of("basic-0", "basic-2")


def test_txn_fence_a_second_producer_fences_the_first_and_aborts_its_transaction(
    cluster: Cluster,
) -> None:
    with producing(cluster, "fence") as first:
        write(first, "fence-1")
        with producing(cluster, "fence") as second:
            write(second, "fence-2")
            with pytest.raises(KafkaException, match="fenced"):
                first.commit_transaction(LONG_S)
            second.commit_transaction(LONG_S)

    assert committed(cluster, "fence") == all_of("fence-2")


def test_txn_timeout_a_transaction_that_takes_too_long_is_aborted(cluster: Cluster) -> None:
    with producing(cluster, "timeout", timeout_ms=1_000) as producer:
        write(producer, "timeout")
        wait_for("an abort", lambda: state(cluster, "timeout") == "CompleteAbort")
        with pytest.raises(KafkaException, match="fenced"):
            producer.commit_transaction(LONG_S)

    assert committed(cluster, "timeout") == []


ZOMBIE = """
import sys
from confluent_kafka import KafkaException, Producer

bootstrap, name, topic, timeout_ms = sys.argv[1:]
producer = Producer({
    "bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": timeout_ms,
    "log_level": 0,
})

def write():
    producer.produce(topic, name + "-zombie 0", partition=0)
    producer.flush(30)

producer.init_transactions(30)
producer.begin_transaction()
write()
print("open", flush=True)
sys.stdin.readline()
try:
    if sys.stdin.readline() == "write\\n":
        write()
    producer.commit_transaction(30)
    outcome = "committed"
except KafkaException as error:
    outcome = f"{error.args[0].name()}: {error.args[0].str()}"
print(outcome, flush=True)
"""
"""A producer that goes on when it is told to: `write` and commit, or only commit."""


FENCED = {
    # INVALID_PRODUCER_EPOCH
    "write": "_FENCED: ProduceRequest .* attempted an operation with an old epoch",
    # PRODUCER_FENCED
    "commit": "_FENCED: Failed to end transaction: .* fenced by a newer instance",
}
"""Errors of librdkafka after something was refused: a batch, or the end of a transaction."""


@contextmanager
def paused(cluster: Cluster, name: str, timeout_ms: int) -> Iterator[Callable[[str], str]]:
    """A process that stands still in its transaction; what is yielded lets it go on."""
    arguments = [cluster.bootstrap, name, TOPIC, str(timeout_ms)]
    with subprocess.Popen(
        [sys.executable, "-c", ZOMBIE, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGSTOP)
        process.stdin.write("\n")

        def go_on(word: str) -> str:
            assert process.stdin is not None
            process.send_signal(signal.SIGCONT)
            out, _ = process.communicate(f"{word}\n", timeout=LONG_S)
            return out

        try:
            yield go_on
        finally:
            process.kill()


@pytest.mark.parametrize("word", ["write", "commit"])
def test_a_paused_process_is_fenced_by_the_one_that_took_its_place(
    cluster: Cluster, word: str
) -> None:
    name = f"zombie-{word}"
    with paused(cluster, name, 60_000) as go_on:
        with producing(cluster, name) as second:
            write(second, f"{name}-second")
            second.commit_transaction(LONG_S)
        said = go_on(word)

    assert re.match(FENCED[word], said)
    assert committed(cluster, name) == all_of(f"{name}-second")


@pytest.mark.parametrize("word", ["write", "commit"])
def test_a_process_that_was_paused_for_too_long_is_fenced(cluster: Cluster, word: str) -> None:
    name = f"late-{word}"
    with paused(cluster, name, 1_000) as go_on:
        wait_for("an abort", lambda: state(cluster, name) == "CompleteAbort")
        said = go_on(word)

    assert re.match(FENCED[word], said)
    assert committed(cluster, name) == []


@pytest.mark.parametrize("commit", [True, False])
def test_txn_coordinator_disk_dies_and_no_producer_fails(cluster: Cluster, commit: bool) -> None:
    name = f"coordinator-dies-{commit}"
    with producing(cluster, name) as producer:
        write(producer, f"{name}-before")
        producer.commit_transaction(LONG_S)
        write(producer, f"{name}-open")
        place = coordinator_partition(name, COORDINATORS)
        with broken(cluster, TRANSACTION_STATE_TOPIC, place):
            if commit:
                producer.commit_transaction(LONG_S)
            else:
                producer.abort_transaction(LONG_S)
            write(producer, f"{name}-after")
            producer.commit_transaction(LONG_S)
            kept = ("before", "open", "after") if commit else ("before", "after")
            assert committed(cluster, name) == all_of(*(f"{name}-{each}" for each in kept))


def test_txn_data_disk_dies_and_no_producer_fails(cluster: Cluster) -> None:
    name = "data-dies"
    with producing(cluster, name) as producer:
        write(producer, f"{name}-open")
        with broken(cluster, TOPIC, 0):
            producer.commit_transaction(LONG_S)
            write(producer, f"{name}-after")
            producer.commit_transaction(LONG_S)
            assert committed(cluster, name) == all_of(f"{name}-after", f"{name}-open")


def test_the_command_shows_transactions_and_finds_none_that_hang(cluster: Cluster) -> None:
    with producing(cluster, "shown") as producer:
        write(producer, "shown")
        (listed,) = told(cluster, "list", "--pattern", "shown")
        assert (listed["transactional_id"], listed["state"]) == ("shown", "Ongoing")
        (described,) = told(cluster, "describe", "shown")
        assert [one["partition"] for one in described["partitions"]] == [0, 1, 2]
        producers = told(cluster, "producers", TOPIC, "0")
        starts = {one["producer_id"]: one["current_txn_start_offset"] for one in producers}
        assert starts[listed["producer_id"]] >= 0
        assert told(cluster, "find-hanging", "--longer-than", "0s") == []
        producer.commit_transaction(LONG_S)


@pytest.mark.kafka
def test_kafkas_tool_shows_an_open_transaction_and_aborts_it(
    cluster: Cluster, kafka_tools: KafkaTools
) -> None:
    def rows(*words: str) -> list[dict[str, str]]:
        done = kafka_tools.run(TRANSACTIONS, "--bootstrap-server", cluster.bootstrap, *words)
        assert done.code == 0, done
        keys, *found = (line.split("\t") for line in done.lines)
        return [
            dict(zip(map(str.strip, keys), map(str.strip, each), strict=True)) for each in found
        ]

    with producing(cluster, "kafkas") as producer:
        write(producer, "kafkas")
        (listed,) = rows("list", "--transactional-id-pattern", "kafkas")
        assert listed["TransactionState"] == "Ongoing"
        (described,) = rows("describe", "--transactional-id", "kafkas")
        assert described["TopicPartitions"] == ",".join(f"{TOPIC}-{n}" for n in range(PARTITIONS))
        place = ("--topic", TOPIC, "--partition", "0")
        producers = rows("describe-producers", *place)
        (start,) = (
            each["CurrentTransactionStartOffset"]
            for each in producers
            if each["ProducerId"] == listed["ProducerId"]
        )
        assert rows("find-hanging", "--topic", TOPIC, "--max-transaction-timeout", "0") == []

        kafka_tools.run(
            TRANSACTIONS,
            *("--bootstrap-server", cluster.bootstrap, "abort", *place, "--start-offset", start),
        )

        assert "None" in {
            each["CurrentTransactionStartOffset"]
            for each in rows("describe-producers", *place)
            if each["ProducerId"] == listed["ProducerId"]
        }
        producer.abort_transaction(LONG_S)
    assert committed(cluster, "kafkas") == []


def state(cluster: Cluster, name: str) -> object:
    (found,) = told(cluster, "describe", name)
    return found["state"]
