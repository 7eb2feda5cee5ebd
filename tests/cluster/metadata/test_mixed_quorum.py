"""A quorum of our controllers and of Apache Kafka's: one log, whoever leads.

Each of the two is the majority in turn. Where a test says Kafka, it means a controller that
Kafka's program runs; who that is may change at each start.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbodlab.metadata.log import quorum_state
from lab.cluster.node import Node
from lab.machine.waiting import wait_for
from tests.cluster.mixed_changes import quota
from tests.cluster.mixed_faults import MixedFaults
from tests.cluster.mixed_quorum import (
    DEADLINE_S,
    MetadataDir,
    MixedQuorum,
    quorum,
    quotas,
)
from tests.kafka.jars import METADATA_SHELL, NoKafkaError
from tests.kafka.tools import CONFIGS, DUMP_LOG, FEATURES, QUORUM, KafkaTools

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(600)]

PLACES_OF_KAFKA = [(0, 1), (0,)]
"""Two of Kafka's beside one of ours, and one beside two."""
SHORT_FAULTS = 3
"""With the first seed: a follower is killed, a leader frozen, and all are stopped."""
LONG_FAULTS = 200
SHORT_LOG = {
    "metadata.log.max.record.bytes.between.snapshots": "5000",
    "metadata.log.segment.ms": "2000",
    "metadata.max.retention.bytes": "20000",
}
SMALL_PIECES = {
    "controller.quorum.fetch.max.bytes": "500",
    "controller.quorum.fetch.snapshot.max.bytes": "500",
}
SHELL = "org.apache.kafka.shell.MetadataShell"


@pytest.fixture
def mixed(
    request: pytest.FixtureRequest, kafka_jars: Path, cluster_root: Path
) -> Iterator[MixedQuorum]:
    """A quorum that has a leader, with as many of Kafka's as the parameter says."""
    del kafka_jars
    with quorum(cluster_root, getattr(request, "param", PLACES_OF_KAFKA[0])) as made:
        made.start()
        made.change_until_acknowledged()
        yield made


both = pytest.mark.parametrize("mixed", PLACES_OF_KAFKA, indirect=True, ids=["two", "one"])
one_for_now = pytest.mark.parametrize(
    "mixed",
    [pytest.param(PLACES_OF_KAFKA[0], marks=pytest.mark.soak), PLACES_OF_KAFKA[1]],
    indirect=True,
    ids=["two", "one"],
)
each_leads = pytest.mark.parametrize("kafka", [True, False], ids=["kafka", "ours"])


def lead_by(mixed: MixedQuorum, *, kafka: bool) -> Node:
    """Hand the leadership over until a controller leads that Kafka's program runs, or ours."""

    def found() -> Node | None:
        leader = mixed.wait_leader()
        if mixed.is_kafka(leader) is kafka:
            return leader
        leader.stop()
        mixed.change_until_acknowledged()
        leader.start()
        mixed.wait_caught_up()
        return None

    return wait_for("a leader of that kind", found, 4 * DEADLINE_S)


@pytest.mark.soak
@both
def test_each_leads_the_other_and_all_logs_are_equal(mixed: MixedQuorum) -> None:
    for end, kafka in (
        (Node.kill, True),
        (Node.stop, False),
        (Node.kill, False),
        (Node.stop, True),
    ):
        leader = lead_by(mixed, kafka=kafka)
        end(leader)
        mixed.change_until_acknowledged()
        leader.start()
        mixed.wait_caught_up()
    mixed.freeze_equal()
    mixed.check_equal()


@pytest.mark.soak
@each_leads
def test_a_tail_that_nobody_else_has_is_cut(mixed: MixedQuorum, kafka: bool) -> None:
    """The others are of the other kind, so each of the two tells the other where to cut."""
    first = lead_by(mixed, kafka=kafka)
    others = [node for node in mixed.controllers if node is not first]
    for node in others:
        node.stop()
        mixed.hand_to(node, kafka=not kafka)
        node.start()
        mixed.wait_caught_up()
    first = mixed.wait_leader(first)
    for node in others:
        node.kill()
    end = MetadataDir(first).end_offset
    assert not mixed.change(first, quota("lost", 1.0))
    assert MetadataDir(first).end_offset > end
    first.kill()
    mixed.start(*others)
    mixed.change_until_acknowledged()

    first.start()

    mixed.wait_caught_up()
    cut = "Truncated to offset" if kafka else "cutting the metadata log"
    assert cut in first.output()
    mixed.freeze_equal()
    mixed.check_equal()
    assert "lost" not in quotas(MetadataDir(first).image())


@pytest.fixture(scope="module")
def shell(kafka_jars: Path) -> Iterator[KafkaTools]:
    """Kafka's metadata shell, for `run_alone`."""
    del kafka_jars
    try:
        tools = KafkaTools(METADATA_SHELL)
    except NoKafkaError as error:
        pytest.skip(str(error))
    yield tools
    tools.close()


@pytest.mark.soak
@each_leads
def test_an_empty_log_begins_with_a_snapshot_of_the_leader(
    kafka: bool, cluster_root: Path, shell: KafkaTools
) -> None:
    with quorum(cluster_root, [0, 1] if kafka else [0], SHORT_LOG | SMALL_PIECES) as mixed:
        mixed.start()
        mixed.change_until_acknowledged()
        leader = lead_by(mixed, kafka=kafka)
        empty = next(node for node in mixed.controllers if mixed.is_kafka(node) is not kafka)
        empty.stop()
        shutil.rmtree(MetadataDir(empty).folder)

        def has_snapshot() -> bool:
            mixed.try_change(leader)
            return bool(MetadataDir(leader).snapshots())

        wait_for("a snapshot", has_snapshot, DEADLINE_S)
        empty.start()

        mixed.wait_caught_up()
        state = MetadataDir(empty).folder / quorum_state.FILE_NAME
        wait_for("a voter that counts", state.exists, DEADLINE_S)
        assert MetadataDir(empty).batches()[0].base_offset > 0
        fetched = MetadataDir(empty).snapshots()[0]
        assert fetched.read_bytes() == (MetadataDir(leader).folder / fetched.name).read_bytes()
        mixed.freeze_equal()
        mixed.check_equal()
        shown = shell.run_alone(SHELL, "--snapshot", fetched, "ls", "/image/clientQuotas")
        assert "user(0)" in shown.lines, shown


@one_for_now
def test_directories_are_started_by_the_other_program(mixed: MixedQuorum) -> None:
    for _ in range(2):
        mixed.freeze_equal()
        mixed.check_equal()
        for node in mixed.controllers:
            mixed.hand_to(node, kafka=not mixed.is_kafka(node))
        mixed.start()
        mixed.change_until_acknowledged()
        mixed.wait_caught_up()
    mixed.freeze_equal()
    mixed.check_equal()


@one_for_now
def test_kafkas_tools_change_the_metadata_and_read_our_files(
    mixed: MixedQuorum, kafka_tools: KafkaTools
) -> None:
    for kafka in (False, True):
        leader = lead_by(mixed, kafka=kafka)
        # Each of them is asked, and names the leader.
        for node in mixed.controllers:
            at = ("--bootstrap-controller", node.address)

            def is_named(at: tuple[str, str] = at, wanted: int = leader.id) -> bool:
                described = kafka_tools.run(QUORUM, *at, "describe", "--status")
                return ["LeaderId:", str(wanted)] in map(str.split, described.lines)

            # Kafka's controller refuses tools until it has read the level of the metadata.
            wait_for(f"the leader as {node} names it", is_named)
    for words in (
        "--entity-type brokers --entity-default --add-config log.cleaner.threads=2",
        "--entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000",
        "--entity-type client-metrics --entity-name m --add-config interval.ms=60000",
    ):
        done = kafka_tools.run(CONFIGS, *at, "--alter", *words.split())
        assert done.code == 0, done
    # Kafka's leader refuses that while a controller has not registered.
    lowered = ["downgrade", "--feature", "eligible.leader.replicas.version=0"]
    done = kafka_tools.run(FEATURES, *at, *lowered)
    assert done.code == 0, done
    mixed.wait_caught_up()
    mixed.freeze_equal()
    mixed.check_equal()
    ours = next(node for node in mixed.controllers if not mixed.is_kafka(node))
    logs = [MetadataDir(node).folder / f"{0:020}.log" for node in (leader, ours)]
    theirs, own = (
        kafka_tools.run(DUMP_LOG, "--cluster-metadata-decoder", "--files", log) for log in logs
    )
    assert theirs.code == own.code == 0
    assert theirs.lines[1:] == own.lines[1:]
    assert "log.cleaner.threads" in own.out


@one_for_now
def test_brokers_go_on_serving_while_kafka_leads(mixed: MixedQuorum) -> None:
    cluster, broker = mixed.cluster, mixed.cluster.broker(1)
    lead_by(mixed, kafka=False)
    broker.start()
    cluster.wait_served()
    cluster.create_topic("before", partitions=1, replicas=1)
    producer = Producer({**cluster.client_config, "acks": "all"})

    lead_by(mixed, kafka=True)
    mixed.change_until_acknowledged()
    producer.produce("before", b"value")
    assert producer.flush(DEADLINE_S) == 0

    lead_by(mixed, kafka=False)
    cluster.create_topic("after", partitions=1, replicas=1)
    producer.produce("after", b"value")
    assert producer.flush(DEADLINE_S) == 0
    mixed.freeze_equal()
    mixed.check_equal()


@pytest.mark.soak
@pytest.mark.parametrize("level", [7, 13, 15, 21])
def test_levels_of_former_releases(level: int, kafka_jars: Path, cluster_root: Path) -> None:
    """Kafka's controllers register from 15 on; from 13 on they begin in one transaction."""
    del kafka_jars
    with quorum(cluster_root, PLACES_OF_KAFKA[0], level=level) as mixed:
        mixed.start()
        for kafka in (True, False):
            lead_by(mixed, kafka=kafka)
            mixed.change_until_acknowledged()
        mixed.freeze_equal()
        mixed.check_equal()


def test_random_faults(kafka_jars: Path, cluster_root: Path) -> None:
    run_faults(cluster_root, PLACES_OF_KAFKA[1], SHORT_FAULTS)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("places", PLACES_OF_KAFKA, ids=["two", "one"])
def test_many_random_faults(kafka_jars: Path, cluster_root: Path, places: tuple[int, ...]) -> None:
    run_faults(cluster_root, places, int(os.environ.get("JBODLAB_TEST_FAULTS", LONG_FAULTS)))


def run_faults(root: Path, places: tuple[int, ...], faults: int) -> None:
    """Make faults; the seed and their number are settings of the environment."""
    seed = int(os.environ.get("JBODLAB_TEST_SEED", "1"))
    print(f"seed {seed}")
    with quorum(root, places, SHORT_LOG) as mixed:
        mixed.start()
        mixed.cluster.broker(1).start()
        mixed.change_until_acknowledged()
        MixedFaults(mixed, seed, print).run(0, faults)
