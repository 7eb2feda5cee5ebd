"""`jbodlab records`, `groups`, `offsets` and `configs` on a cluster of Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cluster.harness import Cluster, wait_for
from tests.command_lines import CommandLines

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.xdist_group("a cluster of Apache Kafka"),
]


@pytest.fixture
def lines(kafkas_cluster: Cluster) -> Iterator[CommandLines]:
    kafkas_cluster.create_topic("orders", 1, 2)
    found = CommandLines(kafkas_cluster.bootstrap)
    yield found
    assert found.run("topics delete orders --yes").code == 0
    wait_for("the topic's end", lambda: "orders" not in found.run("topics list").out)


def test_records_groups_and_offsets_of_apache_kafka(lines: CommandLines) -> None:
    produced = lines.seen("records produce orders --key-separator :", text="a:1\nb:2\nc:3\n")
    assert produced == "! 3 records produced to orders\n"
    consume = "records consume orders --timeout 30s --key-separator :"
    assert lines.seen(f"{consume} --group readers --max 2") == "a:1\nb:2\n! 2 records\n"
    assert lines.seen("offsets orders") == (
        "TOPIC   PARTITION  OFFSET  TIMESTAMP\norders          0       3  -\n"
    )

    (group,) = json.loads(lines.run("groups describe readers --output json").out)
    assert (group["state"], [one["lag"] for one in group["offsets"]]) == ("empty", [1])
    assert lines.run("groups reset readers --topic orders --to -1 --yes").code == 0
    assert lines.seen(f"{consume} --group readers --max 1") == "b:2\n! 1 record\n"
    assert lines.seen("groups describe reader") == (
        "! unknown group 'reader' (did you mean readers?)\nexit 1\n"
    )
    assert lines.seen("groups delete readers --yes") == "deleted group readers\n"


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ("topic orders", "retention.ms", "50000"),
        ("broker 1", "log.cleaner.threads", "2"),
        ("cluster", "log.retention.ms", "50000"),
        ("group readers", "consumer.session.timeout.ms", "50000"),
    ],
)
def test_configs_of_apache_kafka(lines: CommandLines, entity: str, key: str, value: str) -> None:
    def shown() -> list[str]:
        rows = lines.run(f"configs describe {entity}").out.splitlines()
        return next((row.split()[:2] for row in rows if row.split()[0] == key), [])

    assert lines.run(f"configs alter {entity} --set {key}={value}").code == 0
    wait_for("the value", lambda: shown() == [key, value])
    assert lines.run(f"configs alter {entity} --delete {key}").code == 0
    wait_for("its end", lambda: shown() != [key, value])


@pytest.mark.parametrize(
    ("entity", "key"),
    [("topic orders", "retention.ms"), ("group readers", "consumer.session.timeout.ms")],
)
def test_a_key_that_apache_kafka_does_not_know_is_named(
    lines: CommandLines, entity: str, key: str
) -> None:
    assert lines.seen(f"configs alter {entity} --set {key}x=5") == (
        f"! jbodlab: unknown key '{key}x' (did you mean {key}?)\nexit 1\n"
    )
