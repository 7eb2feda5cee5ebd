"""Groups and offsets, by Kafka's own tools and by ours, on a cluster of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from admin_tool import consumer_groups, get_offsets
from tests.cluster.harness import Cluster, wait_for
from tests.kafka.tools import GROUPS, OFFSETS, KafkaTools

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]

CLASSES = {consumer_groups.main: GROUPS, get_offsets.main: OFFSETS}
Main = Callable[[list[str]], int]
Printed = tuple[int, list[str], list[str]]
PROTOCOLS = ("classic", "consumer")
TOPIC = "consumed"


@pytest.fixture(scope="module")
def cluster(kafkas_cluster: Cluster) -> Iterator[Cluster]:
    """Three partitions with ten records each, and three groups, two of them with a member."""
    cluster = kafkas_cluster
    # The records are of 1970.
    cluster.create_topic(TOPIC, 3, 2, retention_ms="-1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(30):
        producer.produce(TOPIC, b"v", partition=number % 3, timestamp=1_000 + number)
    assert producer.flush(30) == 0
    with ExitStack() as stack:
        consumers = [consumer(stack, cluster, name, protocol=name) for name in PROTOCOLS]
        for one in consumers:
            one.subscribe([TOPIC])
            wait_for("records", lambda one=one: one.poll(0.5) is not None, 60)
        commit(stack, cluster, "idle", 4, 5)
        yield cluster
    for future in cluster.admin().delete_topics([TOPIC]).values():
        future.result(30)


def consumer(stack: ExitStack, cluster: Cluster, group: str, protocol: str) -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"client-of-{group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    stack.callback(found.close)
    return found


def commit(stack: ExitStack, cluster: Cluster, group: str, *offsets: int) -> None:
    positions = [Position(TOPIC, number, offset) for number, offset in enumerate(offsets)]
    consumer(stack, cluster, group, "classic").commit(offsets=positions, asynchronous=False)


Run = Callable[..., Printed]


@pytest.fixture
def ours(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(main: Main, *arguments: str) -> Printed:
        capsys.readouterr()
        code = main(["--bootstrap-server", cluster.bootstrap, *arguments])
        printed = capsys.readouterr()
        return code, rows(printed.out), rows(printed.err)

    return run


@pytest.fixture
def theirs(cluster: Cluster, kafka_tools: KafkaTools) -> Run:
    def run(main: Main, *arguments: str) -> Printed:
        done = kafka_tools.run(CLASSES[main], "--bootstrap-server", cluster.bootstrap, *arguments)
        return done.code, rows(done.out), rows(done.err)

    return run


def rows(text: str) -> list[str]:
    """The lines without what is invisible; the order of groups and members is a hash table's."""
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


@pytest.mark.parametrize(
    "arguments",
    [
        "--list",
        "--list --state",
        "--list --type --state stable",
        "--list --type consumer",
        "--describe --all-groups",
        "--describe --group idle --verbose",
        "--describe --all-groups --members",
        "--describe --all-groups --members --verbose",
        "--describe --all-groups --state",
        "--describe --all-groups --state --verbose",
        f"--reset-offsets --group idle --topic {TOPIC} --to-earliest --dry-run",
        f"--reset-offsets --group idle --topic {TOPIC}:0,2 --to-offset 7 --dry-run --export",
        f"--reset-offsets --group new --topic {TOPIC} --to-datetime 1970-01-01T00:00:01.010"
        " --dry-run",
        "--reset-offsets --group idle --all-topics --shift-by 2 --dry-run",
        "--reset-offsets --group idle --all-topics --shift-by -90 --dry-run",
        f"--reset-offsets --group idle --topic {TOPIC} --to-current --dry-run",
        f"--reset-offsets --group idle --topic {TOPIC} --by-duration PT5S --dry-run",
    ],
)
def test_groups_print_the_same(ours: Run, theirs: Run, arguments: str) -> None:
    found = ours(consumer_groups.main, *arguments.split())
    expected = theirs(consumer_groups.main, *arguments.split())

    assert found[0] == expected[0]
    # Ours tells on the standard error output what is no part of a table; Kafka's logs some of it.
    assert set(found[1]) <= set(expected[1])
    assert set(expected[1] + expected[2]) <= set(found[1] + found[2])


@pytest.mark.parametrize(
    "arguments",
    [
        "--topic consumed",
        "--topic cons.* --partitions 0,2 --time earliest",
        "--topic-partitions consumed:1-3 --time max-timestamp",
        "--topic-partitions consumed:1,nothing --time 1010",
        "--topic consumed --time 99999999999999",
        "--exclude-internal-topics --time -1",
        "--topic nothing",
    ],
)
def test_offsets_print_the_same(ours: Run, theirs: Run, arguments: str) -> None:
    assert (
        ours(get_offsets.main, *arguments.split())[:2]
        == theirs(get_offsets.main, *arguments.split())[:2]
    )


def test_what_one_tool_changes_the_other_shows(ours: Run, theirs: Run) -> None:
    reset = ["--reset-offsets", "--group", "made", "--topic", TOPIC, "--to-offset", "3"]
    assert ours(consumer_groups.main, *reset, "--execute")[0] == 0
    shown = theirs(consumer_groups.main, "--describe", "--group", "made")
    assert [line.split()[3] for line in shown[1] if line.startswith("made")] == ["3", "3", "3"]
    assert ours(consumer_groups.main, "--describe", "--group", "made") == shown

    delete = ["--delete-offsets", "--group", "made", "--topic", f"{TOPIC}:0"]
    assert ours(consumer_groups.main, *delete)[0] == 0
    assert theirs(consumer_groups.main, *delete[:-1], f"{TOPIC}:1")[0] == 0
    shown = ours(consumer_groups.main, "--describe", "--group", "made")
    assert [line.split()[2] for line in shown[1] if line.startswith("made")] == ["2"]

    assert ours(consumer_groups.main, "--delete", "--group", "made") == (
        0,
        ["Deletion of requested consumer groups ('made') was successful."],
        [],
    )
    assert "made" not in theirs(consumer_groups.main, "--list")[1]


def test_groups_with_members_stay_as_they_are(ours: Run) -> None:
    for group in PROTOCOLS:
        for action in (
            ["--reset-offsets", "--topic", TOPIC, "--to-earliest", "--execute"],
            ["--delete"],
            ["--delete-offsets", "--topic", TOPIC],
        ):
            assert ours(consumer_groups.main, "--group", group, *action)[0] == 1, action
