"""Closed clusters of the lab: unchanged clients by its files, and its own commands."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from admin_tool import client
from jbodlab.kafka_admin import client as own_client
from jbodlab.vocabulary import properties
from lab.cluster import wait_for
from lab.cluster.security import client_files
from lab.machine.folders import make_folder, remove_folder
from lab.testing.clusters import Cluster
from tests.clients.programs import NoKafkaError, go
from tests.cluster.live_page import served
from tests.cluster.round_trips import all_read, by_kafka_python
from tests.cluster.staying import Staying
from tests.command_lines import run
from tests.jbodlab.cli.addresses import AT_ANY_ADDRESS
from tests.kafka.tools import CONSOLE_CONSUMER, CONSOLE_PRODUCER, LOG_DIRS, TOPICS, KafkaTools

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("closed-clusters"),
    # A library that is compiled takes its time, once.
    pytest.mark.timeout(900),
]

DEADLINE_S = 20.0
MODES = ("sasl_ssl", "mtls", "ssl")


@pytest.fixture(scope="module", params=MODES)
def closed(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(brokers=3, disks=2, security=request.param) as cluster:
        yield cluster


def everything(user: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        "*",
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )


def test_librdkafka_goes_on_while_a_disk_dies(closed: Cluster) -> None:
    topic = closed.new_topic(partitions=1, replicas=3)
    config = closed.client_config("librdkafka")
    producer = Producer({**config, "acks": "all", "enable.idempotence": True})
    results: list[Any] = []
    with closed.leader_log_dir(topic).fails("permission"):
        for number in range(300):
            producer.produce(
                topic, b"%d" % number, on_delivery=lambda error, _: results.append(error)
            )
            producer.poll(0.003)
        assert producer.flush(DEADLINE_S) == 0
    assert results == [None] * 300
    all_read(config, topic, [b"%d" % number for number in range(300)])


def test_kafka_python_reaches_it_by_its_file(closed: Cluster) -> None:
    config = closed.client_config("kafka_python")
    topic = closed.new_topic(partitions=1, replicas=3)
    by_kafka_python(config, topic)


def test_franz_go_reaches_it_by_its_file(closed: Cluster) -> None:
    try:
        command = go("closed").command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    file = client_files(closed.inner.state)["franz_go"]
    topic = closed.new_topic(partitions=1, replicas=3)
    done = subprocess.run(
        [*command, file, topic], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "value\n", done.stderr


def test_a_user_of_applications_may_use_topics_groups_and_transactional_ids_and_no_more(
    closed: Cluster,
) -> None:
    config = closed.client_config("librdkafka")
    admin = AdminClient({**config, "log_level": 0})
    topic = f"own-{closed.need.security}"
    for result in admin.create_topics([NewTopic(topic, 1, 3)]).values():
        result.result(DEADLINE_S)
    producer = Producer({**config, "transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(DEADLINE_S)
    for deleted in admin.delete_topics([topic]).values():
        deleted.result(DEADLINE_S)

    with pytest.raises(KafkaException) as raised:
        next(iter(admin.create_acls([everything("alice")]).values())).result(DEADLINE_S)
    assert raised.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_a_user_without_rights_is_refused_everything(closed: Cluster) -> None:
    topic = closed.new_topic(partitions=1, replicas=3)
    config = {**closed.client_config("librdkafka", "mallory"), "log_level": 0}
    admin = AdminClient(config)
    assert admin.list_topics(timeout=DEADLINE_S).topics == {}
    codes: list[int] = []
    producer = Producer({**config, "message.timeout.ms": "10000"})
    producer.produce(topic, b"value", on_delivery=lambda error, _: codes.append(error.code()))
    assert producer.flush(DEADLINE_S) == 0
    assert codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaException) as raised:
        next(iter(admin.create_topics([NewTopic("theirs", 1, 3)]).values())).result(DEADLINE_S)
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.kafka
def test_kafkas_own_tools_reach_it_by_the_file_for_java(
    closed: Cluster, kafka_tools: KafkaTools
) -> None:
    file = client_files(closed.inner.state)["java"]
    there = ("--bootstrap-server", closed.bootstrap)
    topic = f"java-{closed.need.security}"
    done = kafka_tools.run(TOPICS, *there, "--command-config", file, "--create", "--topic", topic)
    assert done.code == 0, done.out + done.err
    sent = kafka_tools.run(
        CONSOLE_PRODUCER, *there, "--command-config", file, "--topic", topic, text="one\ntwo\n"
    )
    assert sent.code == 0, sent.out + sent.err
    got = kafka_tools.run(
        CONSOLE_CONSUMER,
        *there,
        *("--command-config", file, "--topic", topic),
        *("--from-beginning", "--max-messages", "2", "--timeout-ms", "20000"),
    )
    assert got.lines == ["one", "two"], got.out + got.err
    dirs = kafka_tools.run(LOG_DIRS, *there, "--command-config", file, "--describe")
    assert "Cluster authorization failed" in dirs.out + dirs.err
    admin = client_files(closed.inner.state, "admin")["java"]
    dirs = kafka_tools.run(LOG_DIRS, *there, "--command-config", admin, "--describe")
    assert topic in dirs.out, dirs.err


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize(("mode", "release"), [("sasl_ssl", "4.3.1"), ("mtls", "3.9.2")])
def test_clusters_of_apache_kafka_are_closed_alike(mode: str, release: str) -> None:
    with Cluster(brokers=2, disks=1, security=mode, engine=f"kafka:{release}") as cluster:
        test_kafka_python_reaches_it_by_its_file(cluster)
        test_a_user_without_rights_is_refused_everything(cluster)


IN_EVERY_MODE = """
topics create own --partitions 2 --replication-factor 3
dirs list
records produce own
acls list
"""
"""By each of the libraries that the commands have."""
ALL = f"""
{IN_EVERY_MODE.strip()}
topics list
topics describe own
topics alter own --partitions 3
dirs describe --topics own
dirs cordon broker-1/2
dirs uncordon broker-1/2
dirs drain broker-1/2 --dry-run
dirs balance --dry-run
reassign generate own --brokers 1,2,3
reassign execute move.json --yes
reassign verify move.json
reassign cancel move.json --yes
reassign list
dirs move own-0 --to broker-1/1 --yes
records consume own --group readers --max 1 --timeout 10s
groups list
groups describe readers
groups reset readers --topic own --to earliest --yes
groups delete readers --yes
offsets own
transactions list
transactions describe own
transactions producers own 0
transactions find-hanging --topic own
configs describe broker 1
configs alter topic own --set retention.ms=60000
acls add User:bob read --topic own
acls remove --principal User:bob --yes
users add dora
users list
users remove dora --yes
what-if
topics delete own --yes
"""
ELSEWHERE = {"ui", "dirs revive", "storage repair", "transactions abort"}
"""Commands that take more than a cluster on which all is well."""


def test_own_commands_reach_it_by_the_file_for_java(
    closed: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = {"topic": "own", "partition": 0, "replicas": [3, 2, 1]}
    (tmp_path / "move.json").write_text(json.dumps({"version": 1, "partitions": [move]}))
    monkeypatch.chdir(tmp_path)
    admin, mallory = (
        client_files(closed.inner.state, user)["java"] for user in ("admin", "mallory")
    )
    there = ("--bootstrap-server", closed.bootstrap, "--command-config")
    is_all = closed.need.security == "sasl_ssl"
    producer = Producer({**closed.client_config(), "transactional.id": "own", "log_level": 0})
    for line in (ALL if is_all else IN_EVERY_MODE).strip().splitlines():
        if line == "transactions list":
            producer.init_transactions(DEADLINE_S)
            producer.begin_transaction()
            producer.produce("own", b"value", partition=0)
            assert producer.flush(DEADLINE_S) == 0
        done = run([*line.split(), *there, admin], "secret\n")
        assert done.code == 0, (line, done.out, done.err)
    called = {path for path in AT_ANY_ADDRESS if f"\n{path}" in ALL}
    assert called | ELSEWHERE == set(AT_ANY_ADDRESS)

    assert run(["topics", "list", *there, mallory]).out == ""
    for line in ("dirs list", "acls list", "users list", "reassign list", "topics create theirs"):
        denied = run([*line.split(), *there, mallory])
        assert (denied.code, denied.err.count("\n")) == (1, 1)
        assert "authorization" in denied.err.lower()
    monkeypatch.setattr(own_client, "BOOTSTRAP_TIMEOUT_S", 0.6)
    monkeypatch.setattr(client, "METADATA_TIMEOUTS_S", (0.2,))
    for line in ("topics list", "records produce own"):
        plain = run([*line.split(), *there[:2]])
        assert (plain.code, "(see security.protocol)" in plain.err.splitlines()[-1]) == (1, True)


def test_the_live_page_shows_it(closed: Cluster, tmp_path: Path) -> None:
    file = client_files(closed.inner.state, "admin")["java"]
    there = ("--bootstrap-server", closed.bootstrap, "--command-config", file)
    with served(Staying(tmp_path), *there) as page:

        def all_online() -> bool:
            brokers = page.state()["sections"]["brokers"]
            dirs = [one["state"] for broker in brokers for one in broker["log_dirs"]]
            return dirs == ["online"] * 6

        wait_for("all directories on the page", all_online, DEADLINE_S)


def test_nothing_secret_can_be_read_by_others_or_is_in_a_log(closed: Cluster) -> None:
    root = closed.work_dir
    for folder in (root / "security", root / "keys"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    users = json.loads((root / "security" / "users.json").read_text())
    assert bool(users) == (closed.need.security == "sasl_ssl")
    outputs = [node.output() for node in closed.inner.nodes.values()]
    for secret in [*users.values(), "PRIVATE KEY"]:
        assert not any(secret in each for each in outputs)
    for node in closed.inner.nodes.values():
        assert stat.S_IMODE(node.properties_file.stat().st_mode) == 0o600
        for each in (*node.configured_dirs, node.metadata_dir):
            assert stat.S_IMODE(each.stat().st_mode) == 0o700


def test_up_names_files_for_clients_and_all_commands_use_them() -> None:
    root = make_folder()
    staying = Staying(root)
    try:
        words = ("--brokers", "2", "--disks", "2", "--kind", "folder", "--security", "sasl_ssl")
        told = staying.told("up", *words)
        files = told["client_files"]
        assert set(files) == {"java", "librdkafka", "kafka_python", "franz_go"}
        java = properties.parse(Path(files["java"]).read_text())
        assert java["security.protocol"] == "SASL_SSL"
        assert java["bootstrap.servers"] == told["bootstrap"]
        users = json.loads((Path(files["java"]).parent / "users.json").read_text())
        assert users["alice"] in java["sasl.jaas.config"]
        assert not any(password in json.dumps(told) for password in users.values())

        assert staying.run("topics", "create", "kept", "--partitions", "2").returncode == 0
        assert "kept" in staying.run("topics", "list").stdout
        assert "answers" in staying.run("status").stdout
        assert staying.run("inject", "permission", "broker-1/1").returncode == 0
        assert staying.run("heal", "--revive").returncode == 0
        script = 'test -r "$JBODLAB_CLIENT_FILE_JAVA" && sleep 3'
        ran = staying.run("run", "--fail", "broker-1/2", "--after", "1s", "--", "sh", "-c", script)
        assert "lost         0 of" in ran.stdout + ran.stderr
        assert ran.returncode == 0
        plain = staying.run("topics", "list", "--bootstrap-server", told["bootstrap"])
        assert plain.returncode == 1
    finally:
        staying.run("down", "--yes")
        remove_folder(root)
