"""A directory that failed is repaired and comes back online in the running broker, in every way in
which that can go right or wrong. Nothing that was acknowledged is lost.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import ElectionType

from jbodlab.admin_requests import revive_log_dir
from jbodlab.error_code import ErrorCode
from jbodlab.ids import BrokerId
from jbodlab.protocol.revive_log_dir import ReviveLogDirResponse
from tests.cluster.harness import (
    CONTROLLER_ID,
    Cluster,
    Load,
    assert_nothing_lost,
    directory_id,
    read_all,
    running,
    wait_for,
)

pytestmark = pytest.mark.cluster

TOPIC = "orders"
PARTITIONS = 6


def revive(cluster: Cluster, broker: int, path: Path | str) -> ReviveLogDirResponse:
    return asyncio.run(revive_log_dir("127.0.0.1", cluster.ports[broker], str(path), 60))


def error_of(response: ReviveLogDirResponse) -> ErrorCode:
    return ErrorCode(response.error_code.value)


def registered(cluster: Cluster, broker: int) -> set[object]:
    return set(cluster.image().cluster.brokers[BrokerId(broker)].directories)


def break_directory(cluster: Cluster, kind: str, broker: int, directory: Path) -> str:
    """Break a directory; returns the fault when the controller has taken notice."""
    lost = directory_id(directory)
    fault = cluster.inject(kind, directory)
    wait_for("the controller knowing", lambda: lost not in registered(cluster, broker), 10)
    return fault


def wait_back(cluster: Cluster, broker: int, directory: Path) -> None:
    returned = directory_id(directory)
    wait_for("the directory in the registration", lambda: returned in registered(cluster, broker))


def wait_in_sync(cluster: Cluster, topic: str = TOPIC) -> None:
    everybody = set(cluster.brokers)
    wait_for(
        f"all replicas of {topic} in sync",
        lambda: all(isr == everybody for isr in cluster.isr(topic).values()),
    )


def wait_consistent(cluster: Cluster, broker: int, topic: str = TOPIC) -> None:
    wait_for(
        f"the metadata naming the directories in which broker {broker} has {topic}",
        lambda: cluster.assigned(broker, topic) == cluster.on_disk(broker, topic),
        10,
    )


def values(found: dict[int, list[tuple[int, bytes]]]) -> list[int]:
    return sorted(int(value) for records in found.values() for _, value in records)


@pytest.mark.parametrize("kind", ["chmod000", "readonly", "file"])
def test_repaired_directory_comes_back_under_load(kind: str, cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3, min_insync_replicas="2")
        with Load(cluster.bootstrap, TOPIC) as load:
            broker = cluster.leaders(TOPIC)[0]
            wait_consistent(cluster, broker)
            directory = cluster.directory_of(broker, TOPIC, 0)
            held = cluster.partitions_in(directory, TOPIC)

            fault = break_directory(cluster, kind, broker, directory)
            still_broken = revive(cluster, broker, directory)
            assert error_of(still_broken) is ErrorCode.KAFKA_STORAGE_ERROR
            assert "stays offline" in (still_broken.error_message or "")
            assert still_broken.directory_id is None

            cluster.heal(fault)
            revived = revive(cluster, broker, directory)
            assert error_of(revived) is ErrorCode.NONE, revived.error_message
            assert revived.directory_id == directory_id(directory)
            assert revived.replicas == len(held)
            wait_in_sync(cluster)
            wait_consistent(cluster, broker)
            # What is written while it leads again counts too.
            wait_for("the returned replica leading", lambda: cluster_leads(cluster, broker, held))
            moment = time.monotonic()
            wait_for("acknowledgements", lambda: load.acknowledged_after(moment, min(held)))
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, PARTITIONS))
        assert cluster.processes[broker].poll() is None
        assert "is back online with" in cluster.output(broker)


def cluster_leads(cluster: Cluster, broker: int, partitions: set[int]) -> bool:
    """Have the preferred leaders elected; returns whether the broker leads one of these."""
    cluster.admin().elect_leaders(ElectionType.PREFERRED).result(10)
    leaders = cluster.leaders(TOPIC)
    return any(leaders[partition] == broker for partition in partitions)


def test_only_replica_leads_again_with_all_its_records(cluster_root: Path) -> None:
    with running(cluster_root, brokers=1, dirs=2) as cluster:
        cluster.create_topic(TOPIC, 4, 1)
        with Load(cluster.bootstrap, TOPIC) as load:
            wait_for("some records", lambda: len(load.acknowledged) > 200)
        wait_consistent(cluster, 1)
        directory = cluster.directory_of(1, TOPIC, 0)
        held = cluster.partitions_in(directory, TOPIC)

        for _ in range(2):
            fault = break_directory(cluster, "chmod000", 1, directory)
            wait_for("no leader", lambda: cluster.leaders(TOPIC)[0] == -1)
            cluster.heal(fault)
            assert revive(cluster, 1, directory).replicas == len(held)
            wait_for("leaders", lambda: set(cluster.leaders(TOPIC).values()) == {1})
            assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 4))
            wait_consistent(cluster, 1)

        # The restart of a broker with a revived directory is like any other.
        assert cluster.stop_node(1) == 0
        cluster.start_node(1)
        cluster.wait_ready()
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 4))
        cluster.kill(1)
        cluster.start_node(1)
        cluster.wait_ready()
        wait_for("leaders", lambda: set(cluster.leaders(TOPIC).values()) == {1})
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, 4))


def test_what_cannot_be_revived_is_refused_and_nothing_changes(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 2)
        one, two, _ = cluster.log_dirs(2)

        unknown = revive(cluster, 2, "/nowhere")
        assert error_of(unknown) is ErrorCode.LOG_DIR_NOT_FOUND
        assert str(one) in (unknown.error_message or "")
        separate = revive(cluster, 2, cluster.metadata_dir(2))
        assert error_of(separate) is ErrorCode.LOG_DIR_NOT_FOUND
        online = revive(cluster, 2, one)
        assert error_of(online) is ErrorCode.INVALID_REQUEST
        assert "is online" in (online.error_message or "")

        kept = one.with_name("kept")
        fault = break_directory(cluster, "chmod000", 2, one)
        cluster.heal(fault)
        before = sorted(path.name for path in one.iterdir())
        meta = (one / "meta.properties").read_text()
        for content, reason in [
            ("version=7\n", "Unknown meta.properties version number 7"),
            (meta.replace(cluster.cluster_id, "c" * 22), "Invalid cluster.id"),
            (meta.replace("node.id=2", "node.id=1"), "Stored node id 1"),
            ((two / "meta.properties").read_text(), "Duplicate directory ID"),
        ]:
            (one / "meta.properties").write_text(content)
            refused = revive(cluster, 2, one)
            assert error_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
            assert reason in (refused.error_message or ""), refused.error_message
        (one / "meta.properties").write_text(meta)

        one.rename(kept)
        for make, reason in [
            (lambda: None, "No such file"),
            (lambda: one.write_text("a file"), "Not a directory"),
            (lambda: (one.unlink(), one.mkdir()), "jbod-storage format --ignore-formatted"),
            (lambda: (one.rmdir(), one.symlink_to(two)), "Duplicate log directory"),
        ]:
            make()
            refused = revive(cluster, 2, one)
            assert error_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
            assert reason in (refused.error_message or ""), refused.error_message
        one.unlink()
        kept.rename(one)

        assert sorted(path.name for path in one.iterdir()) == before
        assert cluster.processes[2].poll() is None
        assert all(1 in isr for isr in cluster.isr(TOPIC).values())
        assert error_of(revive(cluster, 2, one)) is ErrorCode.NONE
        wait_in_sync(cluster)


def test_two_revivals_at_once_and_a_second_failure(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 2)
        with Load(cluster.bootstrap, TOPIC) as load:
            wait_consistent(cluster, 2)
            directory = cluster.directory_of(2, TOPIC, 0)
            held = cluster.partitions_in(directory, TOPIC)
            for _ in range(2):
                fault = break_directory(cluster, "chmod000", 2, directory)
                wait_for(
                    "the replicas out of the ISR",
                    lambda: all(2 not in cluster.isr(TOPIC)[p] for p in held),
                )
                cluster.heal(fault)

                async def both() -> list[ReviveLogDirResponse]:
                    port, path = cluster.ports[2], str(directory)
                    calls = [revive_log_dir("127.0.0.1", port, path, 60) for _ in range(2)]
                    return await asyncio.gather(*calls)

                answers = asyncio.run(both())
                codes = sorted(error_of(each) for each in answers)
                assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
                loser = next(each for each in answers if error_of(each) is not ErrorCode.NONE)
                assert "is being revived already" in (loser.error_message or "")
                wait_in_sync(cluster)
                wait_consistent(cluster, 2)
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, PARTITIONS))


def test_replaced_disk_is_a_new_directory_that_catches_up_first(cluster_root: Path) -> None:
    with running(cluster_root) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 3)
        with Load(cluster.bootstrap, TOPIC) as load:
            broker = cluster.leaders(TOPIC)[0]
            directory = cluster.directory_of(broker, TOPIC, 0)
            old = directory_id(directory)
            break_directory(cluster, "delete", broker, directory)
            directory.mkdir(exist_ok=True)
            cluster.own(directory)
            assert "format" in (revive(cluster, broker, directory).error_message or "")
            cluster.format(broker)
            assert directory_id(directory) != old

            revived = revive(cluster, broker, directory)
            assert error_of(revived) is ErrorCode.NONE, revived.error_message
            assert (revived.directory_id, revived.replicas) == (directory_id(directory), 0)
            wait_in_sync(cluster)
            wait_consistent(cluster, broker)
            assert old not in registered(cluster, broker)
        assert_nothing_lost(load, read_all(cluster.bootstrap, TOPIC, PARTITIONS))


def test_replaced_disk_of_the_last_replica_in_sync_never_leads(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2, dirs=2) as cluster:
        cluster.create_topic(TOPIC, 2, 2)
        with Load(cluster.bootstrap, TOPIC, partition=0) as load:
            wait_for("some records", lambda: len(load.acknowledged) > 200)
            cluster.kill(1)
            wait_for("broker 2 alone", lambda: isr_in_log(cluster, 0) == (2,))
        acknowledged = len(load.acknowledged)
        directory = cluster.directory_of(2, TOPIC, 0)
        kept = directory.with_name("kept")
        break_directory(cluster, "chmod000", 2, directory)
        directory.chmod(0o755)
        directory.rename(kept)
        directory.mkdir()
        cluster.own(directory)
        cluster.format(2)
        assert error_of(revive(cluster, 2, directory)) is ErrorCode.NONE

        cluster.start_node(1)
        cluster.wait_ready()
        time.sleep(3)
        # Neither has all that was acknowledged: one was away, one is empty.
        state = cluster.image().topics.by_name[TOPIC].partitions[0]
        assert (state.leader, state.isr) == (-1, (2,))

        # The old disk is found again.
        shutil.rmtree(directory)
        wait_for("it to fail", lambda: cluster.output(2).count("went offline") >= 2)
        kept.rename(directory)
        wait_for("revived", lambda: error_of(revive(cluster, 2, directory)) is ErrorCode.NONE)
        wait_for("a leader", lambda: cluster.leaders(TOPIC)[0] == 2)
        found = read_all(cluster.bootstrap, TOPIC, 2)
        assert len(values(found)) >= acknowledged
        assert_nothing_lost(load, found)
        wait_in_sync(cluster)


def isr_in_log(cluster: Cluster, partition: int) -> tuple[int, ...]:
    return cluster.image().topics.by_name[TOPIC].partitions[partition].isr


def test_what_the_metadata_placed_elsewhere_meanwhile_stays_there(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2, dirs=2) as cluster:
        for topic in (TOPIC, "gone", "again"):
            cluster.create_topic(topic, 4, 2)
            wait_consistent(cluster, 2, topic)
        directory = cluster.directory_of(2, TOPIC, 0)
        names = {topic: cluster.partitions_in(directory, topic) for topic in ("gone", "again")}
        assert all(names.values())
        fault = break_directory(cluster, "chmod000", 2, directory)
        for future in cluster.admin().delete_topics(["gone", "again"]).values():
            future.result(10)
        wait_for("deletion", lambda: "again" not in cluster.admin().list_topics(timeout=5).topics)
        cluster.create_topic("again", 4, 2)
        wait_in_sync(cluster, "again")
        cluster.heal(fault)

        assert error_of(revive(cluster, 2, directory)) is ErrorCode.NONE
        wait_in_sync(cluster)
        for topic in (TOPIC, "again"):
            wait_consistent(cluster, 2, topic)
        for topic, partitions in names.items():
            strays = {
                path.name.partition(".")[0]
                for path in directory.iterdir()
                if path.name.endswith("-stray")
            }
            assert {f"{topic}-{partition}" for partition in partitions} <= strays


def test_controller_may_be_away_when_a_directory_comes_back(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 2)
        first, second, _ = cluster.log_dirs(2)
        fault = break_directory(cluster, "chmod000", 2, first)
        wait_for("broker 2 out", lambda: any(2 not in isr for isr in cluster.isr(TOPIC).values()))
        cluster.signal(CONTROLLER_ID, signal.SIGKILL)
        cluster.processes.pop(CONTROLLER_ID).wait(10)

        # The controller knew of the first failure, but not of the second one.
        cluster.heal(fault)
        assert error_of(revive(cluster, 2, first)) is ErrorCode.NONE
        fault = cluster.inject("chmod000", second)
        wait_for("the failure", lambda: cluster.output(2).count("went offline") == 2)
        cluster.heal(fault)
        untold = revive(cluster, 2, second)
        assert error_of(untold) is ErrorCode.REQUEST_TIMED_OUT
        assert "the controller has not yet" in (untold.error_message or "")

        cluster.start_node(CONTROLLER_ID)
        wait_back(cluster, 2, first)
        assert error_of(revive(cluster, 2, second)) is ErrorCode.NONE
        wait_back(cluster, 2, second)
        wait_in_sync(cluster)
        wait_consistent(cluster, 2)


def test_directory_that_was_dead_at_the_start_can_be_revived(cluster_root: Path) -> None:
    with running(cluster_root, brokers=2) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS, 2)
        wait_consistent(cluster, 2)
        directory = cluster.directory_of(2, TOPIC, 0)
        held = cluster.partitions_in(directory, TOPIC)
        assert cluster.stop_node(2) == 0
        fault = cluster.inject("chmod000", directory)
        cluster.start_node(2)
        cluster.wait_ready()
        wait_for("the others in sync", lambda: sum(2 in i for i in cluster.isr(TOPIC).values()) > 0)

        cluster.heal(fault)
        revived = revive(cluster, 2, directory)
        assert error_of(revived) is ErrorCode.NONE, revived.error_message
        assert revived.replicas == len(held)
        wait_in_sync(cluster)
        wait_consistent(cluster, 2)
