"""The same commands, by Kafka's own tools and by ours, on a cluster of Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from admin_tool import log_dirs, reassign_partitions, topics
from tests.cluster.harness import Cluster, partitions_in, wait_for
from tests.kafka.tools import LOG_DIRS, REASSIGN, TOPICS, KafkaTools

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]

CLASSES = {topics.main: TOPICS, log_dirs.main: LOG_DIRS, reassign_partitions.main: REASSIGN}
Main = Callable[[list[str]], int]
Printed = tuple[int, list[str]]


@pytest.fixture(scope="module")
def cluster(kafkas_cluster: Cluster) -> Iterator[Cluster]:
    kafkas_cluster.create_topic("foo", 3, 2)
    fill(kafkas_cluster, "foo", 3)
    yield kafkas_cluster
    made = [name for name in ("foo", "bar.1") if name in topics_of(kafkas_cluster)]
    for future in kafkas_cluster.admin().delete_topics(made).values():
        future.result(30)
    wait_for("the topics' end", lambda: not {"foo", "bar.1"} & topics_of(kafkas_cluster))


def topics_of(cluster: Cluster) -> set[str]:
    return set(cluster.admin().list_topics(timeout=10).topics)


def fill(cluster: Cluster, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(partitions * 300):
        producer.produce(topic, bytes(10_000), partition=number % partitions)
        if number % 100 == 0:
            producer.flush(30)
    assert producer.flush(30) == 0


@pytest.fixture
def ours(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    def run(main: Main, *arguments: str) -> Printed:
        capsys.readouterr()
        code = main(["--bootstrap-server", cluster.bootstrap, *arguments])
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def theirs(cluster: Cluster, kafka_tools: KafkaTools) -> Callable[..., Printed]:
    def run(main: Main, *arguments: str) -> Printed:
        done = kafka_tools.run(CLASSES[main], "--bootstrap-server", cluster.bootstrap, *arguments)
        return done.code, done.lines

    return run


def without_offline(lines: list[str]) -> list[str]:
    """Kafka's columns of a description: ours but the last."""
    return [line.partition("\tOffline: ")[0] for line in lines]


def by_topic(lines: list[str]) -> list[str]:
    """Kafka describes topics in the order of a hash table."""
    blocks: list[list[str]] = []
    for line in lines:
        if line.startswith("Topic: ") or not blocks:
            blocks.append([])
        blocks[-1].append(line)
    return [line for block in sorted(blocks) for line in block]


def test_topics_are_described_as_kafkas_tool_does(
    ours: Callable[..., Printed], theirs: Callable[..., Printed]
) -> None:
    create = ["--create", "--topic", "bar.1", "--partitions", "2", "--replication-factor", "3"]
    create += ["--config", "min.insync.replicas=2", "--config", "retention.ms=1000000"]
    code, lines = ours(topics.main, *create)
    assert (code, lines[0][:8], lines[1:]) == (0, "WARNING:", ["Created topic bar.1."])
    # It exists now, say both.
    refused = ours(topics.main, *create)
    assert refused[0] == 1
    assert refused[1][1:] == ["Error while executing topic command : Topic 'bar.1' already exists."]
    assert refused == theirs(topics.main, *create)

    code, lines = theirs(topics.main, "--describe")
    assert code == 0
    assert len(lines) == 7
    described = ours(topics.main, "--describe")[1]
    assert without_offline(by_topic(described)) == by_topic(lines)
    assert all(line.endswith("\tOffline: ") for line in described if line.startswith("\t"))
    for arguments in (
        ["--list"],
        ["--describe", "--topic", "bar.*", "--topics-with-overrides"],
        ["--describe", "--at-min-isr-partitions"],
        ["--describe", "--topic", "nope"],
        ["--create", "--topic", "foo2", "--replication-factor", "9", "--partitions", "1"],
        ["--create", "--topic", "foo2", "--replica-assignment", "1:2,1"],
        ["--create", "--topic", "foo2", "--config", "foo=bar"],
    ):
        code, lines = ours(topics.main, *arguments)
        assert (code, without_offline(lines)) == theirs(topics.main, *arguments), arguments


def test_a_topic_is_found_by_its_id_in_pages_of_partitions(ours: Callable[..., Printed]) -> None:
    whole = ours(topics.main, "--describe", "--topic", "foo")
    topic_id = whole[1][0].partition("TopicId: ")[2].partition("\t")[0]
    pages = ["--partition-size-limit-per-response", "1"]
    assert ours(topics.main, "--describe", "--topic-id", topic_id, *pages) == whole
    assert len(whole[1]) == 4
    assert ours(topics.main, "--describe", *pages) == ours(topics.main, "--describe")
    code, lines = ours(topics.main, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAg")
    assert (code, lines) == (
        1,
        [
            "Error while executing topic command : "
            "TopicId 'AAAAAAAAAAAAAAAAAAAAAg' does not exist as expected"
        ],
    )


def test_topics_grow_and_go(ours: Callable[..., Printed]) -> None:
    assert ours(topics.main, "--create", "--topic", "tmp", "--replica-assignment", "1:2,2:3") == (
        0,
        ["Created topic tmp."],
    )
    exists = ["--create", "--topic", "tmp", "--if-not-exists"]
    assert ours(topics.main, *exists) == (0, [])
    grow = ["--alter", "--topic", "tmp", "--partitions"]
    assert ours(topics.main, *grow, "3", "--replica-assignment", "1:2,2:3,3:1") == (0, [])
    code, lines = ours(topics.main, *grow, "2")
    assert (code, lines) == (
        1,
        [
            "Error while executing topic command : "
            "The topic tmp currently has 3 partition(s); 2 would not be an increase."
        ],
    )
    wait_for(
        "the third partition",
        lambda: "Replicas: 3,1" in ours(topics.main, "--describe", "--topic", "tmp")[1][-1],
    )
    delete = ["--delete", "--topic", "tmp"]
    assert ours(topics.main, *delete) == (0, [])
    wait_for("the topic's end", lambda: "tmp" not in ours(topics.main, "--list")[1])
    assert ours(topics.main, *delete) == (
        1,
        ["Error while executing topic command : Topic 'tmp' does not exist as expected"],
    )
    assert ours(topics.main, *delete, "--if-exists") == (0, [])


def normalised(line: str) -> Any:
    """The JSON of directories with nothing in an order, which Kafka's is not in either."""
    found = json.loads(line)
    for broker in found["brokers"]:
        broker["logDirs"].sort(key=lambda log_dir: log_dir["logDir"])
        for log_dir in broker["logDirs"]:
            log_dir["partitions"].sort(key=lambda one: (one["partition"], one["isFuture"]))
    return found


def test_log_dirs_are_the_same_json(
    ours: Callable[..., Printed], theirs: Callable[..., Printed]
) -> None:
    for arguments in ([], ["--broker-list", "2,1", "--topic-list", "foo"]):
        code, lines = ours(log_dirs.main, "--describe", *arguments)
        kafkas = theirs(log_dirs.main, "--describe", *arguments)
        assert (code, lines[:2]) == (kafkas[0], kafkas[1][:2])
        assert len(lines) == len(kafkas[1]) == 3
        assert normalised(lines[2]) == normalised(kafkas[1][2])
        # The keys come in the same order.
        assert list(json.loads(lines[2])) == list(json.loads(kafkas[1][2]))
        first, other = (
            json.loads(one)["brokers"][0]["logDirs"][0] for one in (lines[2], kafkas[1][2])
        )
        assert list(first) == list(other)


def test_the_table_does_without_ids_here(cluster: Cluster, ours: Callable[..., Printed]) -> None:
    code, lines = ours(log_dirs.main, "--describe", "--table", "--broker-list", "1")
    assert code == 0
    assert [line.split()[:4] for line in lines[1:4]] == [
        ["1", str(path), "-", "ONLINE"] for path in cluster.broker(1).paths
    ]


def test_directories_are_cordoned_and_uncordoned(
    cluster: Cluster, ours: Callable[..., Printed], theirs: Callable[..., Printed]
) -> None:
    one, two, three = map(str, cluster.broker(2).paths)

    def states() -> list[str]:
        lines = ours(log_dirs.main, "--describe", "--table", "--broker-list", "2")[1]
        return [line.split()[3] for line in lines[1:4]]

    head = "Cordoned log directories of broker 2: "
    assert ours(log_dirs.main, "cordon", "--broker", "2", "--dir", f"{one},{three}") == (
        0,
        [f"{head}{one},{three}"],
    )
    wait_for("both to be cordoned", lambda: states() == ["CORDONED", "ONLINE", "CORDONED"])
    assert ours(log_dirs.main, "cordon", "--broker", "2", "--dir", "*") == (0, [f"{head}*"])
    wait_for("all to be cordoned", lambda: states() == ["CORDONED"] * 3)
    assert ours(log_dirs.main, "uncordon", "--broker", "2", "--dir", two) == (
        0,
        [f"{head}{one},{three}"],
    )
    wait_for("one to be uncordoned", lambda: states() == ["CORDONED", "ONLINE", "CORDONED"])
    assert ours(log_dirs.main, "uncordon", "--broker", "2", "--dir", "*") == (0, [f"{head}none"])
    wait_for("all to be uncordoned", lambda: states() == ["ONLINE"] * 3)


def test_a_broker_of_apache_kafka_revives_nothing(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap = ["--bootstrap-server", cluster.bootstrap]
    arguments = ["revive", "--broker", "1", "--dir", str(cluster.broker(1).paths[0])]
    assert log_dirs.main([*bootstrap, *arguments]) == 1
    found = capsys.readouterr()
    assert found.err.startswith("broker 1 does not know the request ReviveLogDir")
    assert found.err.count("\n") == 1


def plan_of(cluster: Cluster, path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A file that moves foo-0 to another broker and foo-1 to another directory of its leader."""
    replicas = {
        partition.id: list(partition.replicas)
        for partition in cluster.admin()
        .list_topics("foo", timeout=10)
        .topics["foo"]
        .partitions.values()
    }
    stays, goes = replicas[0]
    (comes,) = set(cluster.broker_ids) - {stays, goes}
    first = replicas[1][0]
    source = cluster.broker(first).log_dir_of("foo", 1).path
    target = next(path for path in cluster.broker(first).paths if path != source)
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "foo", "partition": 0, "replicas": [stays, comes]},
            {
                "topic": "foo",
                "partition": 1,
                "replicas": replicas[1],
                "log_dirs": [str(target), "any"],
            },
        ],
    }
    path.write_text(json.dumps(plan))
    return plan, {"source": str(source), "target": str(target), "mover": str(first)}


def test_reassignments_go_as_with_kafkas_tool(
    cluster: Cluster,
    tmp_path: Path,
    ours: Callable[..., Printed],
    theirs: Callable[..., Printed],
) -> None:
    path = tmp_path / "plan.json"
    _, where = plan_of(cluster, path)
    file = ["--reassignment-json-file", str(path)]
    main = reassign_partitions.main
    assert (
        ours(main, "--list")
        == theirs(main, "--list")
        == (
            0,
            ["No partition reassignments found."],
        )
    )
    slow = ["--throttle", "10", "--replica-alter-log-dirs-throttle", "10"]

    begun = theirs(main, "--execute", *file, *slow)
    assert begun[0] == 0, begun
    for action in (["--list"], ["--verify"], ["--execute"]):
        arguments = [*action, *(file if action != ["--list"] else [])]
        assert ours(main, *arguments) == theirs(main, *arguments), action
    table = ours(log_dirs.main, "--describe", "--table", "--broker-list", where["mover"])[1]
    assert table[-1].split()[:4] == ["foo-1", where["mover"], where["source"], where["target"]]
    assert "offsets behind" in table[-1]
    arguments = ["--describe", "--topic", "foo"]
    described = ours(topics.main, *arguments)
    assert (described[0], without_offline(described[1])) == theirs(topics.main, *arguments)
    assert any("Adding Replicas: " in line for line in described[1])
    ended = theirs(main, "--cancel", *file)

    # Once more, by ours from the beginning to the end.
    wait_for("the end of the first", lambda: ours(main, "--list")[1][0].startswith("No "))
    assert ours(main, "--execute", *file, *slow) == begun
    assert ours(main, "--cancel", *file) == ended
    wait_for("the end of the second", lambda: ours(main, "--list")[1][0].startswith("No "))
    nothing = ours(main, "--cancel", *file)
    assert nothing == theirs(main, "--cancel", *file)
    assert ours(main, "--verify", *file) == theirs(main, "--verify", *file)


def test_a_reassignment_reaches_its_end_and_the_throttles_go(
    cluster: Cluster,
    tmp_path: Path,
    ours: Callable[..., Printed],
    theirs: Callable[..., Printed],
) -> None:
    path = tmp_path / "plan.json"
    _, where = plan_of(cluster, path)
    main = reassign_partitions.main
    file = ["--reassignment-json-file", str(path)]
    code, lines = ours(main, "--execute", *file, "--throttle", "100000000")
    assert code == 0
    assert lines[-1] == (
        f"Successfully started moving log directory to {where['target']} for replica foo-1 with "
        f"broker {where['mover']} "
    )

    # The controller knows the end of a reassignment before the broker that is asked for replicas.
    def verified() -> list[str]:
        return ours(main, "--verify", *file, "--preserve-throttles")[1][1:]

    end = [
        "Reassignment of partition foo-0 is completed.",
        "Reassignment of partition foo-1 is completed.",
        f"Reassignment of replica foo-1-{where['mover']} completed successfully.",
    ]
    wait_for("the reassignment's end", lambda: verified() == end, last_seen=verified)
    # The former copy goes a moment after the new one counts.
    wait_for(
        "the replica's place",
        lambda: (
            cluster.broker(int(where["mover"])).log_dir_of("foo", 1).path == Path(where["target"])
        ),
    )
    described = ours(topics.main, "--describe", "--topic", "foo")[1][0]
    assert "leader.replication.throttled.replicas=" in described
    assert ours(main, "--verify", *file)[1][-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3",
        "Clearing topic-level throttles on topic foo",
    ]
    wait_for(
        "the throttles' end",
        lambda: "throttled" not in ours(topics.main, "--describe", "--topic", "foo")[1][0],
    )
    assert ours(main, "--verify", *file) == theirs(main, "--verify", *file)


def test_a_proposal_can_be_executed(
    tmp_path: Path, ours: Callable[..., Printed], theirs: Callable[..., Printed]
) -> None:
    path = tmp_path / "topics.json"
    path.write_text('{"topics":[{"topic":"foo"}],"version":1}')
    arguments = ["--generate", "--topics-to-move-json-file", str(path), "--broker-list", "1,2,3"]
    code, lines = ours(reassign_partitions.main, *arguments)
    assert code == 0
    assert lines[:4] == theirs(reassign_partitions.main, *arguments)[1][:4]
    proposed = json.loads(lines[4])["partitions"]
    assert [one["partition"] for one in proposed] == [0, 1, 2]
    assert all(len(set(one["replicas"])) == 2 for one in proposed)
    assert sorted(one["replicas"][0] for one in proposed) == [1, 2, 3]


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ({"topic": "nope", "partition": 0, "replicas": [1]}, "Topic nope not found."),
        ({"topic": "foo", "partition": 77, "replicas": [1]}, "Unable to find partition: foo-77"),
        ({"topic": "foo", "partition": 0, "replicas": [1, 9]}, "Unknown broker id 9"),
    ],
)
def test_what_does_not_exist_is_refused_before_anything_begins(
    partition: dict[str, object],
    message: str,
    tmp_path: Path,
    ours: Callable[..., Printed],
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [partition]}))
    assert ours(reassign_partitions.main, "--execute", "--reassignment-json-file", str(path)) == (
        1,
        [f"Error: {message}"],
    )


def test_a_directory_that_is_none_is_refused_before_anything_begins(
    cluster: Cluster, tmp_path: Path, ours: Callable[..., Printed]
) -> None:
    replicas = list(
        cluster.admin().list_topics("foo", timeout=10).topics["foo"].partitions[2].replicas
    )
    partition = {"topic": "foo", "partition": 2, "replicas": replicas}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": [{**partition, "log_dirs": ["/nowhere", "any"]}]}))
    code, lines = ours(reassign_partitions.main, "--execute", "--reassignment-json-file", str(path))
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith(
        f"Error: Failed to alter dir for foo-2-{replicas[0]}: /nowhere is no log directory of "
        f"broker {replicas[0]}, which has /"
    )


def test_a_dead_directory_is_offline_and_its_replicas_are_named(
    cluster: Cluster, ours: Callable[..., Printed], theirs: Callable[..., Printed]
) -> None:
    broker = cluster.broker_ids[-1]
    path = next(path for path in cluster.broker(broker).paths if partitions_in(path, "foo"))
    dead = partitions_in(path, "foo")
    # For the rest of the cluster's life: only a restart would bring it back.
    cluster.log_dir_at(path).fails()
    describe = ["--describe", "--topic", "foo"]
    wait_for(
        "the failure",
        lambda: (
            {
                int(line.partition("Partition: ")[2].partition("\t")[0])
                for line in ours(topics.main, *describe)[1]
                if line.endswith(f"\tOffline: {broker}")
            }
            == dead
        ),
    )
    arguments = ["--describe", "--broker-list", str(broker)]
    (line,) = ours(log_dirs.main, *arguments)[1][2:]
    assert normalised(line) == normalised(theirs(log_dirs.main, *arguments)[1][2])
    assert "org.apache.kafka.common.errors.KafkaStorageException" in line
    filters = ["--describe", "--under-replicated-partitions"]
    found = ours(topics.main, *filters)
    assert (found[0], by_topic(without_offline(found[1]))) == theirs(topics.main, *filters)
