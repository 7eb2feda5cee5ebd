"""Answers of coordinators while their disks die, move and come back, to a client that only asks.

Libraries hide the answers that they try again; here each of them is looked at.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster import moving
from tests.cluster.group_members import Members
from tests.cluster.group_stage import COORDINATORS, GOES_ON_S, committed, coordinator
from tests.cluster.harness import running, wait_for
from tests.cluster.scenes import SETTINGS, Scene, Stage
from tests.command_lines import CommandLines
from tests.kafka.tools import GROUPS, KafkaTools

pytestmark = pytest.mark.cluster

NONE = ErrorCode.NONE
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
MOVED = ErrorCode.NOT_COORDINATOR
PATIENCE_S = 20.0
"""For one answer: longer than a commit may wait, shorter than any test."""


def kio(name: str, version: int) -> Any:
    return import_module(f"kio.schema.{name}.v{version}.request")


class Asker:
    """A connection to one broker; a standalone committer of one partition."""

    def __init__(self, port: int, topic: str) -> None:
        self.topic = topic
        self._port = port
        self._runner = asyncio.Runner()
        self._connection: KafkaConnection | None = None

    def close(self) -> None:
        self._drop()
        self._runner.close()

    def find(self, *groups: str) -> list[Any]:
        """Ask who coordinates groups."""
        request = kio("find_coordinator", 4).FindCoordinatorRequest(coordinator_keys=groups)
        return list(self._call(ApiKey.FIND_COORDINATOR, 4, request).coordinators)

    def commit(self, group: str, offset: int) -> ErrorCode:
        """Commit an offset of partition 0 without being a member."""
        at = kio("offset_commit", 9)
        partition = at.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topic = at.OffsetCommitRequestTopic(name=self.topic, partitions=(partition,))
        request = at.OffsetCommitRequest(group_id=group, member_id="", topics=(topic,))
        answer = self._call(ApiKey.OFFSET_COMMIT, 9, request)
        return ErrorCode(int(answer.topics[0].partitions[0].error_code))

    def fetch(self, group: str) -> tuple[ErrorCode, int]:
        """Ask for what is committed of partition 0, whatever still waits to be."""
        at = kio("offset_fetch", 8)
        topic = at.OffsetFetchRequestTopics(name=self.topic, partition_indexes=(0,))
        asked = at.OffsetFetchRequestGroup(group_id=group, topics=(topic,))
        request = at.OffsetFetchRequest(groups=(asked,), require_stable=True)
        (answer,) = self._call(ApiKey.OFFSET_FETCH, 8, request).groups
        code = ErrorCode(int(answer.error_code))
        if code is not NONE:
            return code, -1
        found = answer.topics[0].partitions[0]
        return ErrorCode(int(found.error_code)), int(found.committed_offset)

    def _call(self, key: ApiKey, version: int, request: Any) -> Any:
        try:
            return self._runner.run(self._called(key, version, request))
        except (ConnectionError, TimeoutError):
            self._drop()
            raise

    async def _called(self, key: ApiKey, version: int, request: Any) -> Any:
        if self._connection is None:
            self._connection = await KafkaConnection.open(
                "127.0.0.1", self._port, client_id="asker", timeout_s=PATIENCE_S
            )
        return await self._connection.call(key, version, request, timeout_s=PATIENCE_S)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def asking(scene: Scene, topic: str) -> Iterator[dict[int, Asker]]:
    """One connection to each broker."""
    askers = {
        broker: Asker(scene.cluster.node(broker).port, topic) for broker in scene.cluster.broker_ids
    }
    try:
        yield askers
    finally:
        for asker in askers.values():
            asker.close()


def found(askers: dict[int, Asker], group: str, *, of: int) -> tuple[ErrorCode, int]:
    """The answer of one broker to who coordinates a group."""
    (told,) = askers[of].find(group)
    return ErrorCode(int(told.error_code)), int(told.node_id)


def wait_active(scene: Scene, askers: dict[int, Asker], group: str) -> int:
    """Wait until a group is served by who coordinates it; returns that broker."""

    def serves() -> int | None:
        code, broker = found(askers, group, of=next(iter(askers)))
        if code is NONE and askers[broker].fetch(group)[0] is NONE:
            return broker
        return None

    # The topic is made for the first that asks.
    broker = wait_for(f"the coordinator of {group}", serves, GOES_ON_S)
    scene.wait_all_in_sync()
    return broker


def wait_other(askers: dict[int, Asker], group: str, former: int) -> int:
    """Wait until a broker names another coordinator than itself."""

    def other() -> int | None:
        code, broker = found(askers, group, of=former)
        # Clients would come back to it, again and again.
        assert broker != former
        assert code in (NONE, UNAVAILABLE)
        return broker if code is NONE else None

    return wait_for(f"another coordinator of {group}", other, GOES_ON_S)


class Committing:
    """Commits ever greater offsets to one broker, on a thread; remembers every answer."""

    def __init__(self, port: int, topic: str, group: str) -> None:
        self.answers: list[tuple[float, ErrorCode]] = []
        self.acknowledged = -1
        self._asker = Asker(port, topic)
        self._group = group
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"commits to {group}")

    def __enter__(self) -> Committing:
        self._thread.start()
        wait_for("a commit", lambda: self.acknowledged > 5)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._asker.close()

    def refused(self) -> set[ErrorCode]:
        return {code for _, code in self.answers} - {NONE}

    def longest_answer_s(self) -> float:
        return max(took for took, _ in self.answers)

    def _run(self) -> None:
        offset = 0
        while not self._stop.wait(0.005):
            begun_s = time.monotonic()
            code = self._asker.commit(self._group, offset)
            self.answers.append((time.monotonic() - begun_s, code))
            if code is NONE:
                self.acknowledged = offset
                offset += 1


def groups_by_directory(scene: Scene, broker: int) -> dict[Path, str]:
    """A group for each directory in which a broker coordinates some."""
    by_path: dict[Path, str] = {}
    for number in range(1_000):
        group = f"group {number}"
        leader, path = coordinator(scene, group)
        if leader == broker:
            by_path.setdefault(path, group)
    return by_path


def test_first_find_creates(group_stage: Stage) -> None:
    with group_stage.scene() as scene, asking(scene, "none") as askers:
        assert GROUP_METADATA_TOPIC not in scene.cluster.image().topics.by_name

        (told,) = askers[1].find("g")

        assert ErrorCode(int(told.error_code)) is UNAVAILABLE
        assert told.error_message == f"{GROUP_METADATA_TOPIC} is being created"
        begun_s = time.monotonic()
        wait_for("a coordinator", lambda: found(askers, "g", of=1)[0] is NONE)
        print(f"coordinator after {time.monotonic() - begun_s:.2f} s")
        topic = scene.cluster.image().topics.by_name[GROUP_METADATA_TOPIC]
        assert len(topic.partitions) == COORDINATORS
        assert {len(each.replicas) for each in topic.partitions.values()} == {3}
        admin = scene.cluster.admin()
        # Another broker may answer, which hears of the topic a moment later.
        wait_for(
            "the topic in a list",
            lambda: GROUP_METADATA_TOPIC in admin.list_topics(timeout=30).topics,
        )


def test_find_with_few_brokers(cluster_root: Path) -> None:
    with running(cluster_root, brokers=1, dirs=2, settings=SETTINGS) as cluster:
        asker = Asker(cluster.node(1).port, "none")
        try:
            wait_for("a coordinator", lambda: int(asker.find("g")[0].error_code) == 0)
        finally:
            asker.close()
        topic = cluster.image().topics.by_name[GROUP_METADATA_TOPIC]
        assert {each.replicas for each in topic.partitions.values()} == {(1,)}
        said = cluster.node(1).output()
        assert "with replication factor 1 instead of 3" in said


def test_commit_disk_dies_and_acked_commit_disk_dies(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        with asking(scene, topic) as askers:
            former = wait_active(scene, askers, "g")
            _, path = coordinator(scene, "g")
            with Committing(scene.cluster.node(former).port, topic, "g") as commits:
                scene.break_and_wait("chmod000", former, path)
                wait_for("it was refused", lambda: commits.refused())
            # A client that commits is sent away, and told nothing else.
            assert commits.refused() == {MOVED}
            print(f"slowest answer {commits.longest_answer_s():.2f} s")
            now = wait_other(askers, "g", former)
            offset = wait_for(
                "it is loaded", lambda: [o for c, o in [askers[now].fetch("g")] if c is NONE]
            )[0]
            # A commit that was acknowledged is there; one that was in flight may be.
            assert commits.acknowledged <= offset <= commits.acknowledged + 1
            assert askers[now].commit("g", offset + 1) is NONE
            assert askers[now].fetch("g") == (NONE, offset + 1)
            assert askers[former].commit("g", 0) is MOVED


def test_move_coordinator_directory(group_stage: Stage) -> None:
    with group_stage.scene() as scene, Members() as clients:
        ledger = scene.topic(4, records=40)
        with asking(scene, ledger.topic) as askers:
            broker = wait_active(scene, askers, "g")
            member = clients.join("librdkafka", scene.cluster.bootstrap, ledger.topic, "g")
            wait_for(
                "it has all", lambda: member.poll() is not None and len(member.assigned()) == 4
            )
            index = coordinator_partition("g", COORDINATORS)
            target = moving.other_dir(scene.cluster, broker, GROUP_METADATA_TOPIC, index)
            standalone = next(
                group
                for group in map("alone {}".format, range(1_000))
                if coordinator_partition(group, COORDINATORS) == index
            )
            with Committing(scene.cluster.node(broker).port, ledger.topic, standalone) as commits:
                wanted = {(GROUP_METADATA_TOPIC, index): target}
                assert moving.alter(scene.cluster, broker, wanted) == {NONE}
                wait_for(
                    "it is in the other directory",
                    lambda: coordinator(scene, "g") == (broker, target),
                    GOES_ON_S,
                )
                reached = commits.acknowledged
                wait_for("commits go on", lambda: commits.acknowledged > reached + 20)
                member.poll()
                member.commit()
            assert commits.refused() == set()
            assert len(member.assigned()) == 4
            assert askers[broker].fetch(standalone) == (NONE, commits.acknowledged)


def test_move_source_dies(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        with asking(scene, topic) as askers:
            broker = wait_active(scene, askers, "g")
            for offset in range(200):
                assert askers[broker].commit("g", offset) is NONE
            index = coordinator_partition("g", COORDINATORS)
            source = coordinator(scene, "g")[1]
            target = moving.other_dir(scene.cluster, broker, GROUP_METADATA_TOPIC, index)
            moving.set_move_rate(scene.cluster, broker, 1_000)
            try:
                assert moving.alter(
                    scene.cluster, broker, {(GROUP_METADATA_TOPIC, index): target}
                ) == {NONE}
                wait_for(
                    "a copy",
                    lambda: moving.is_moving(scene.cluster, broker, GROUP_METADATA_TOPIC),
                )
                scene.break_and_wait("chmod000", broker, source)

                now = wait_for(
                    "another coordinator",
                    lambda: next(
                        (
                            b
                            for c, b in [found(askers, "g", of=broker)]
                            if c is NONE and b != broker
                        ),
                        None,
                    ),
                )
                wait_for("it has the offset", lambda: askers[now].fetch("g") == (NONE, 199))
                assert askers[now].commit("g", 200) is NONE
            finally:
                moving.set_move_rate(scene.cluster, broker, None)


def test_revived_coordinator(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        with asking(scene, topic) as askers:
            former = wait_active(scene, askers, "g")
            with Committing(scene.cluster.node(former).port, topic, "g") as commits:
                scene.break_and_wait("chmod000", former, coordinator(scene, "g")[1])
            old = commits.acknowledged
            assert committed(scene.cluster, "g", topic)[0] >= old
            now = coordinator(scene, "g")[0]
            assert now != former
            wait_for("a newer commit", lambda: askers[now].commit("g", old + 100) is NONE)

            scene.make_whole()
            elect(scene, coordinator_partition("g", COORDINATORS))

            wait_for("it is served again", lambda: askers[former].fetch("g")[0] is NONE)
            assert askers[former].fetch("g") == (NONE, old + 100)
            assert askers[now].commit("g", 0) is MOVED


def elect(scene: Scene, index: int) -> None:
    """Let the preferred replica lead a coordinator's partition."""
    wanted = [TopicPartition(GROUP_METADATA_TOPIC, index)]
    scene.cluster.admin().elect_leaders(ElectionType.PREFERRED, wanted).result(30)


def test_one_replica_directory_dead(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        scene.cluster.create_topic(GROUP_METADATA_TOPIC, COORDINATORS, 1)
        with asking(scene, topic) as askers:
            broker = wait_active(scene, askers, "g")
            path = coordinator(scene, "g")[1]
            assert askers[broker].commit("g", 7) is NONE

            scene.break_and_wait("chmod000", broker, path)

            for each in askers:
                wait_for(
                    f"broker {each} names nobody",
                    lambda each=each: found(askers, "g", of=each) == (UNAVAILABLE, -1),
                )
            assert askers[broker].commit("g", 8) is MOVED
            assert askers[broker].fetch("g") == (MOVED, -1)

            scene.make_whole()

            assert wait_active(scene, askers, "g") == broker
            assert askers[broker].fetch("g") == (NONE, 7)


def test_other_directory_unaffected(group_stage: Stage) -> None:
    """I17."""
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        with asking(scene, topic) as askers:
            broker = wait_active(scene, askers, "g")
            groups = groups_by_directory(scene, broker)
            assert len(groups) > 1
            (dying, hit), (_, spared) = list(groups.items())[:2]
            port = scene.cluster.node(broker).port
            with (
                Committing(port, topic, hit) as of_dead,
                Committing(port, topic, spared) as of_other,
            ):
                scene.break_and_wait("chmod000", broker, dying)
                wait_for("one is refused", lambda: of_dead.refused())
                reached = of_other.acknowledged
                wait_for("the other goes on", lambda: of_other.acknowledged > reached + 50)
            assert of_dead.refused() == {MOVED}
            assert of_other.refused() == set()
            assert askers[broker].fetch(spared) == (NONE, of_other.acknowledged)


@contextmanager
def one_coordinator_lost(group_stage: Stage) -> Iterator[tuple[Scene, str, str]]:
    """A group whose coordinator is in a dead directory, without another replica, and one beside."""
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        scene.cluster.create_topic(GROUP_METADATA_TOPIC, COORDINATORS, 1)
        with asking(scene, topic) as askers:
            broker = wait_active(scene, askers, "g")
            (dying, hit), (_, spared) = list(groups_by_directory(scene, broker).items())[:2]
            for group in (hit, spared):
                assert askers[broker].commit(group, 7) is NONE
            scene.break_and_wait("chmod000", broker, dying)
        yield scene, hit, spared


def test_commands_with_one_directory_dead(group_stage: Stage) -> None:
    with one_coordinator_lost(group_stage) as (scene, hit, spared):
        lines = CommandLines(scene.cluster.bootstrap)

        code, out, _ = lines.run("groups list")
        assert (code, spared in out, hit in out) == (0, True, False)
        code, out, err = lines.run("groups describe", hit, spared)
        assert code == 1
        assert out.startswith(f"group {spared}: empty, 0 members"), err
        assert err.startswith(f"cannot describe group {hit!r}: ")
        assert err.count("\n") == 1


@pytest.mark.kafka
def test_kafkas_tool_with_one_directory_dead(group_stage: Stage, kafka_tools: KafkaTools) -> None:
    with one_coordinator_lost(group_stage) as (scene, hit, spared):
        at = ("--bootstrap-server", scene.cluster.bootstrap, "--timeout", "5000")

        code, out, err = kafka_tools.run(GROUPS, *at, "--list")
        assert (code, spared in out, hit in out) == (0, True, False), err
        code, out, err = kafka_tools.run(GROUPS, *at, "--describe", "--group", spared)
        assert (code, spared in out) == (0, True), err
        _, out, err = kafka_tools.run(GROUPS, *at, "--describe", "--group", hit)
        assert "Error: " in out + err
