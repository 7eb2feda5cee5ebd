"""Groups, offsets, settings and records, by Kafka's own tools and by ours, on a cluster of Apache
Kafka.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Position

from admin_tool import configs, console_consumer, console_producer, consumer_groups, get_offsets
from tests.cluster.harness import Cluster, wait_for
from tests.kafka.tools import (
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    GROUPS,
    OFFSETS,
    KafkaTools,
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]

CLASSES = {
    consumer_groups.main: GROUPS,
    get_offsets.main: OFFSETS,
    configs.main: CONFIGS,
    console_consumer.main: CONSOLE_CONSUMER,
    console_producer.main: CONSOLE_PRODUCER,
}
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
def ours(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Run:
    def run(main: Main, *arguments: str, text: str = "") -> Printed:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(["--bootstrap-server", cluster.bootstrap, *arguments])
        printed = capsys.readouterr()
        return code, rows(printed.out), rows(printed.err)

    return run


@pytest.fixture
def theirs(cluster: Cluster, kafka_tools: KafkaTools) -> Run:
    def run(main: Main, *arguments: str, text: str = "") -> Printed:
        at = ("--bootstrap-server", cluster.bootstrap)
        done = kafka_tools.run(CLASSES[main], *at, *arguments, text=text)
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


@pytest.mark.parametrize("expression", ["orders-.*", "a(b", r"(?=x)"])
def test_expressions_are_judged_the_same(ours: Run, theirs: Run, expression: str) -> None:
    arguments = ("--validate-regex", expression)
    found, expected = (run(consumer_groups.main, *arguments) for run in (ours, theirs))
    # Kafka's ends with 0 whatever it finds.
    assert (found[0], expected[0]) == (int(expression != "orders-.*"), 0)
    # The two libraries have their own words for what is wrong.
    valid = f"The regular expression `{expression}` is "
    for printed in (found, expected):
        assert any(valid in line for lines in printed[1:] for line in lines), printed


CHANGES = [
    (
        "--topic consumed",
        "retention.bytes=123456,follower.replication.throttled.replicas=[0:1,1:2]",
    ),
    ("--entity-type brokers --entity-name 1", "log.cleaner.threads=2"),
    ("--broker-defaults", "log.retention.ms=88888888"),
    ("--group idle", "consumer.session.timeout.ms=50000"),
    ("--client-metrics told", "interval.ms=5000,metrics=[a.b,c.d]"),
    ("--entity-type clients --entity-name c", "request_percentage=12.5"),
    (
        "--entity-type users --entity-name u --entity-type clients --entity-default",
        "consumer_byte_rate=7",
    ),
    (
        "--entity-type users --entity-name u --entity-type clients --entity-name c",
        "consumer_byte_rate=8",
    ),
    ("--client-defaults", "producer_byte_rate=9"),
    ("--ip 10.9.8.7", "connection_creation_rate=10"),
    ("--ip-defaults", "connection_creation_rate=11"),
]
"""What settings are changed of, and how."""


@pytest.mark.parametrize(("entity", "settings"), CHANGES)
def test_settings_are_changed_and_shown_in_the_same_words(
    ours: Run, theirs: Run, entity: str, settings: str
) -> None:
    words = entity.split()
    names = ",".join(part.partition("=")[0] for part in settings.split(",") if "=" in part)
    add, delete = ("--add-config", settings), ("--delete-config", names)

    def shown(run: Run) -> Printed:
        return run(configs.main, "--describe", *words)

    before = shown(theirs)
    for changer, other in ((ours, theirs), (theirs, ours)):
        changed = changer(configs.main, "--alter", *words, *add)
        assert changed[0] == 0, changed
        wait_for("the change", lambda: shown(theirs) != before)
        wait_for("the same words", lambda: shown(ours)[:2] == shown(theirs)[:2], 20)
        removed = other(configs.main, "--alter", *words, *delete)
        assert removed[:2] == changed[:2]
        wait_for("its end", lambda: shown(theirs)[:2] == shown(ours)[:2] == before[:2], 20)


@pytest.mark.parametrize(
    "arguments",
    [
        "--describe --entity-type topics",
        "--describe --topic consumed --all",
        "--describe --entity-type brokers",
        "--describe --broker 2 --all",
        "--describe --entity-type groups",
        "--describe --entity-type client-metrics",
        "--describe --client-metrics nothing",
        "--describe --group nothing",
        "--describe --entity-type users --entity-type clients",
        "--alter --topic nothing --add-config retention.ms=1",
        "--alter --topic consumed --add-config nope=1",
        "--alter --topic consumed --add-config retention.ms=x",
        "--alter --topic consumed --delete-config retention.bytes",
        "--alter --broker 1 --add-config node.id=7",
        "--alter --client c --add-config nope=1",
    ],
)
def test_settings_print_the_same(ours: Run, theirs: Run, arguments: str) -> None:
    found = ours(configs.main, *arguments.split())
    expected = theirs(configs.main, *arguments.split())

    assert found[:2] == expected[:2]


@pytest.mark.soak
def test_records_are_written_and_printed_the_same(cluster: Cluster, ours: Run, theirs: Run) -> None:
    topic = "printed"
    cluster.create_topic(topic, 1, 2)
    at = ("--topic", topic)
    parse = [
        word
        for each in ("parse.key=true", "parse.headers=true", "null.marker=nil")
        for word in ("--reader-property", each)
    ]
    lines = "".join(f"h:v,i:w\tk{number}\tvalue {number}\n" for number in range(3))
    for run, text in ((ours, lines), (theirs, lines), (ours, "a:b\tnil\tnil\n")):
        assert run(console_producer.main, *at, *parse, text=text)[0] == 0
    kinds = ("timestamp", "partition", "offset", "headers", "key")
    show = [word for kind in kinds for word in ("--formatter-property", f"print.{kind}=true")]
    beginning = ("--from-beginning", "--max-messages", "7")
    for options in (
        beginning,
        (*beginning, *show),
        (*beginning, *show, "--formatter-property", "null.literal=nothing"),
        (*beginning, "--formatter-property", "key.separator=|", *show),
        (*beginning, "--isolation-level", "read_committed"),
        (*beginning, "--formatter", "org.apache.kafka.tools.consumer.NoOpMessageFormatter"),
        ("--partition", "0", "--offset", "5", "--max-messages", "2", *show),
        ("--partition", "0", "--offset", "latest", "--timeout-ms", "1000"),
    ):
        found, expected = (run(console_consumer.main, *at, *options) for run in (ours, theirs))
        assert found[:2] == expected[:2], options
        assert [line for line in expected[2] if line.startswith("Processed")] == found[2]
    # A group goes on with one tool where the other one has stopped.
    in_group = ("--group", "printers", "--from-beginning", "--max-messages")
    assert len(ours(console_consumer.main, *at, *in_group, "3")[1]) == 3
    assert theirs(console_consumer.main, *at, *in_group, "3")[1] == sorted(
        f"value {number}" for number in range(3)
    )
    assert ours(console_consumer.main, *at, *in_group, "1")[1] == ["null"]
    for future in cluster.admin().delete_topics([topic]).values():
        future.result(30)
