"""What coordinators say while their disks die, move and come back, to a client that only asks.

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

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.peers.client import KafkaConnection
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC
from tests.cluster.group_stage import COORDINATORS, GOES_ON_S, coordinator
from tests.cluster.harness import wait_for
from tests.cluster.scenes import Scene, Stage
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
    """What one broker says of who coordinates a group."""
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


def test_commit_disk_dies_and_acked_commit_disk_dies(group_stage: Stage) -> None:
    with group_stage.scene() as scene:
        topic = scene.topic(1, records=0).topic
        with asking(scene, topic) as askers:
            former = wait_active(scene, askers, "g")
            _, path = coordinator(scene, "g")
            with Committing(scene.cluster.node(former).port, topic, "g") as commits:
                scene.break_and_wait("chmod000", former, path)
                wait_for("it was refused", lambda: commits.refused())
            # Who commits is sent away, and told nothing else.
            assert commits.refused() == {MOVED}
            print(f"slowest answer {commits.longest_answer_s():.2f} s")
            now = wait_other(askers, "g", former)
            offset = wait_for(
                "it is loaded", lambda: [o for c, o in [askers[now].fetch("g")] if c is NONE]
            )[0]
            # What was acknowledged is there; what was in flight may be.
            assert commits.acknowledged <= offset <= commits.acknowledged + 1
            assert askers[now].commit("g", offset + 1) is NONE
            assert askers[now].fetch("g") == (NONE, offset + 1)
            assert askers[former].commit("g", 0) is MOVED


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
