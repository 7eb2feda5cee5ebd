"""Client libraries consume, transform and produce in transactions while directories die.

So does the program of Apache Kafka's own system tests.

Times are measured and printed, and judged by nobody: pytest -s.
"""

from __future__ import annotations

import signal
import subprocess
import time

import pytest
from confluent_kafka.admin import ResourceType

from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tests.clients.copiers import COPIERS, PARTITIONS, CopierProcess
from tests.clients.members import ProgramProcess
from tests.clients.programs import librdkafkas_example
from tests.cluster.configs import alter, client
from tests.cluster.group_stage import GROUP_SETTINGS, committed, coordinator
from tests.cluster.harness import Load, read_all, wait_for
from tests.cluster.scenes import Scene, Stage, Stages, some
from tests.cluster.transactional_load import by_transaction, committed_records, high_watermarks
from tests.kafka.jars import NoKafkaError
from tests.kafka.tools import CONSOLE_CONSUMER, MESSAGE_COPIER, OPTIONS, KafkaTools

pytestmark = [
    pytest.mark.cluster,
    # A library that is compiled takes its time, once.
    pytest.mark.timeout(900),
]

RATE = 60
MORE_COMMITS = 5
GOES_ON_S = 60.0


@pytest.fixture
def stage(stages: Stages) -> Stage:
    """Transactions go on with one replica of three."""
    return stages.of(
        settings={
            **GROUP_SETTINGS,
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.min.isr": "1",
        }
    )


def let_two_die(scene: Scene) -> None:
    """Have the offsets of groups served with one replica of three, too."""
    admin = client(scene.cluster)
    alter(admin, ResourceType.TOPIC, GROUP_METADATA_TOPIC, min_insync_replicas="1")


def go_on(copier: CopierProcess, what: str, wanted: int | None = None) -> None:
    """Wait until a few commits more were answered, or so many."""
    begin_s, before = time.monotonic(), copier.commits()
    if wanted is None:
        wanted = before + MORE_COMMITS

    def have() -> bool:
        copier.assert_runs()
        return copier.commits() >= wanted

    wait_for(f"commits {what}", have, GOES_ON_S, last_seen=lambda: copier)
    print(f"{what}: {wanted - before} commits in {time.monotonic() - begin_s:.2f} s")


def copy_the_rest(copier: CopierProcess, wanted: set[int]) -> None:
    """Wait until all is copied, for each next commit as long as for some before.

    On a busy machine a load is faster than its copies, so that the rest may be of any length.
    """
    while True:
        before = copier.commits()
        if copier.copied() >= wanted:
            return
        go_on(copier, "with the rest", before + 1)


@pytest.mark.parametrize("library", some(list(COPIERS), *(set(COPIERS) - {"java-3"})))
def test_each_record_is_copied_once_while_directories_of_coordinators_and_data_die(
    stage: Stage, library: str
) -> None:
    try:
        command = COPIERS[library].command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    name = f"copies-of-{library}"
    with stage.scene() as scene:
        bootstrap = scene.cluster.bootstrap
        source, target = (scene.topic(PARTITIONS, records=0) for _ in range(2))
        copier = CopierProcess(command, bootstrap, source.topic, target.topic, name)
        try:
            with Load(bootstrap, source.topic, rate=RATE) as load:
                go_on(copier, "from the start")
                let_two_die(scene)
                place = coordinator(scene, name, TRANSACTION_STATE_TOPIC)
                scene.break_and_wait("chmod000", *place)
                go_on(copier, "without the transaction coordinator's directory")
                scene.break_and_wait("chmod000", *scene.leader(target))
                go_on(copier, "without a directory of the copies")
                # Of three, all replicas of one partition may be in them.
                scene.make_whole()
                scene.break_and_wait("chmod000", *coordinator(scene, name))
                go_on(copier, "without the group coordinator's directory")
            assert not load.errors
            wanted = set(range(load.sent))
            copy_the_rest(copier, wanted)
            copier.leave()
        finally:
            copier.close()
        print(f"{len(copier.began)} transactions, {load.sent} records, errors: {copier.errors}")

        found = by_transaction(committed_records(bootstrap, target.topic, PARTITIONS))
        copier.assert_once(found)
        assert {value for values in found.values() for value in values} == wanted
        ends = dict(enumerate(high_watermarks(bootstrap, source.topic, PARTITIONS)))
        assert committed(scene.cluster, name, source.topic) == ends


@pytest.mark.soak
def test_librdkafkas_own_example_writes_the_sum_of_each_record_once(stage: Stage) -> None:
    try:
        command = librdkafkas_example("transactions").command()
    except NoKafkaError as error:
        pytest.skip(str(error))
    with stage.scene() as scene:
        bootstrap = scene.cluster.bootstrap
        source, target = (scene.topic(PARTITIONS, records=0) for _ in range(2))

        def sums() -> list[int]:
            read = read_all(bootstrap, target.topic, PARTITIONS)
            return sorted(int(value) for records in read.values() for _, value in records)

        def go_on(example: subprocess.Popen[bytes]) -> None:
            wanted = load.sent - 1

            def have() -> bool:
                assert example.poll() is None
                return len(sums()) >= wanted

            wait_for(f"{wanted} sums", have, GOES_ON_S, last_seen=lambda: len(sums()))

        # Its consumer's callback commits the last transaction.
        with (
            Load(bootstrap, source.topic, rate=RATE) as load,
            subprocess.Popen(
                [*command, bootstrap, source.topic, target.topic], stdout=subprocess.DEVNULL
            ) as example,
        ):
            try:
                go_on(example)
                let_two_die(scene)
                for place in (
                    coordinator(scene, "librdkafka_transactions_example", TRANSACTION_STATE_TOPIC),
                    scene.leader(target),
                ):
                    scene.break_and_wait("chmod000", *place)
                    go_on(example)
                load.stop()
                go_on(example)
                example.send_signal(signal.SIGINT)
                assert example.wait(GOES_ON_S) == 0
            finally:
                example.kill()
        # Each record has one number in it, and the sum 0 is not written.
        assert sums() == list(range(1, load.sent))


@pytest.mark.kafka
@pytest.mark.soak
def test_kafkas_message_copier_ends_well_with_every_record_once(
    stage: Stage, kafka_tools: KafkaTools
) -> None:
    name, count = "message-copier", 300
    with stage.scene() as scene:
        bootstrap = scene.cluster.bootstrap
        source = scene.topic(1, records=count)
        target = scene.topic(1, records=0)
        options = {
            "broker-list": bootstrap,
            "input-topic": source.topic,
            "input-partition": "0",
            "output-topic": target.topic,
            "max-messages": str(count),
            "transaction-size": "10",
            "transactional-id": name,
            "consumer-group": name,
        }
        copier = ProgramProcess(
            ["java", *OPTIONS, "-cp", f"{kafka_tools.jars}/*", MESSAGE_COPIER],
            *(word for key, value in options.items() for word in (f"--{key}", value)),
            *("--enable-random-aborts", "--use-group-metadata"),
        )
        try:
            wait_for("a transaction", lambda: copier.events, GOES_ON_S, last_seen=lambda: copier)
            let_two_die(scene)
            place = coordinator(scene, name, TRANSACTION_STATE_TOPIC)
            scene.break_and_wait("chmod000", *place)
            scene.break_and_wait("chmod000", *scene.leader(target))
            print(f"disks died before {copier.events[-1]}")
            assert copier.ends(GOES_ON_S) == 0, copier
        finally:
            copier.close()

        read = kafka_tools.run(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", target.topic, "--from-beginning"),
            *("--isolation-level", "read_committed", "--timeout-ms", "5000"),
        )
        assert read.lines == [
            value.decode() for _, value in read_all(bootstrap, source.topic, 1)[0]
        ]
