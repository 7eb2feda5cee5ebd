"""Metrics of a controller, compared with what happened."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from controller.decide.brokers.brokers import heartbeat, late_heartbeat
from controller.decide.brokers.registration import register_broker
from controller.decide.state import ControllerResult, ControllerState
from controller.metrics import (
    RAFT_PREFIX,
    ControllerMetrics,
    PartitionCounts,
    count_partitions,
    raft_metrics,
)
from jbodlab.controller_api.requests import BrokerHeartbeatRequest
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.runtime.metrics import Metric
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId
from lab.machine.ports import HeldPorts
from tests.builders import PureController
from tests.controller.formatted import format_dir
from tests.controller.lead.snapshots import SETTINGS, Snapshots, snapshotting
from tests.controller.process import ROOT, Process
from tests.controller.quorum.nodes import Node, quorum

PREFIX = "kafka_controller_KafkaController_"


def collected(metrics: ControllerMetrics) -> dict[str, float]:
    def value(metric: Metric) -> float:
        ((suffix, labels, found),) = metric.samples
        assert (suffix, dict(labels)) == ("", {})
        return found

    return {metric.name.removeprefix(PREFIX): value(metric) for metric in metrics()}


def of_quorum(node: Node) -> dict[str, float]:
    """Return the metrics of a node by name, with a label behind it where there is one."""
    return {
        metric.name.removeprefix(RAFT_PREFIX)
        + "".join(f" {each}" for each in labels.values()): found
        for metric in raft_metrics(node.log, 3)
        for _, labels, found in metric.samples
    }


async def test_nodes_of_a_quorum_tell_their_state_and_how_far_their_logs_are(
    tmp_path: Path,
) -> None:
    documented = (ROOT / "docs" / "metrics.md").read_text()
    async with quorum(tmp_path) as network:
        leader = await network.leader()
        follower = next(each for each in network.nodes.values() if each is not leader)
        await leader.append()
        end_offset = leader.log.core.end_offset
        await network.until(lambda: of_quorum(follower)["high_watermark"] == end_offset)

        led, followed = of_quorum(leader), of_quorum(follower)
        assert (led["current_state leader"], led["current_state follower"]) == (1, 0)
        assert (followed["current_state leader"], followed["current_state follower"]) == (0, 1)
        for found in (led, followed):
            assert found["current_leader"] == leader.log.me.node_id
            assert found["current_epoch"] == found["log_end_epoch"] == leader.log.core.state.epoch
            assert found["log_end_offset"] == found["high_watermark"] == end_offset
            assert (found["number_of_voters"], found["number_of_observers"]) == (3, 0)
            assert (found["uncommitted_voter_change"], found["disk_full"]) == (0, 0)
            assert (found["disk_hand_overs_total"], found["held_requests"]) == (0, 3)
        assert sum(name.startswith("follower_sync_ms") for name in led) >= 1
        names = {metric.name for metric in raft_metrics(leader.log, held_requests=0)}
        assert names == set(re.findall(rf"^\| `({RAFT_PREFIX}\w+)", documented, re.MULTILINE))


def test_partitions_are_counted_by_leader() -> None:
    pure = PureController()
    pure.add_broker(1, "A1")
    pure.add_broker(2, "B1")
    pure.create("foo", (1, 2), (2, 1), (1, 2))
    pure.create("bar", (2,))
    assert count_partitions(pure.state.image.topics) == PartitionCounts(4, 0, 0)

    for topic, leader in (("foo", BrokerId(2)), ("bar", NO_LEADER)):
        change = PartitionChangeRecord(
            topic_id=pure.state.image.topics.by_name[topic].topic_id, partition_id=0, leader=leader
        )
        pure.replay(change)

    assert count_partitions(pure.state.image.topics) == PartitionCounts(4, 1, 2)


def refuse(state: ControllerState, now_ms: int) -> ControllerResult[None]:
    raise ZeroDivisionError


async def test_operations_and_brokers_are_counted(tmp_path: Path) -> None:
    begun_ms = int(time.time() * 1000)

    async def scenario(it: Snapshots) -> None:
        controller = it.shell.controller
        metrics = ControllerMetrics(
            it.shell.leadership, it.shell.committed, it.snapshotter.snapshots
        )
        documented = (ROOT / "docs" / "metrics.md").read_text()
        assert all(f"| `{metric.name}` |" in documented for metric in metrics())
        before = collected(metrics)
        assert before["ActiveControllerCount"] == 1
        assert (before["ActiveBrokerCount"], before["FencedBrokerCount"]) == (0, 0)

        registration = PureController().registration(1, "A1")
        answer = await controller.submit(partial(register_broker, registration))
        request = BrokerHeartbeatRequest(
            broker_id=BrokerId(1),
            broker_epoch=answer.broker_epoch,
            current_metadata_offset=answer.broker_epoch,
        )
        assert collected(metrics)["FencedBrokerCount"] == 1
        await controller.submit(partial(heartbeat, request))
        await controller.submit(
            partial(heartbeat, request), deadline_ms=-1, late=partial(late_heartbeat, request)
        )
        for operation, deadline_ms in ((refuse, None), (refuse, -1)):
            with pytest.raises(KafkaError):
                await controller.submit(operation, deadline_ms=deadline_ms)

        after = collected(metrics)
        assert (after["ActiveBrokerCount"], after["FencedBrokerCount"]) == (1, 0)
        assert after["EventQueueOperationsStartedCount"] == 5
        assert after["EventQueueOperationsTimedOutCount"] == 2
        assert after["TimedOutBrokerHeartbeatCount"] == 1
        assert after["MetadataErrorCount"] == 1
        assert after["LastAppliedRecordOffset"] == it.shell.log.end_offset - 1
        assert after["LastCommittedRecordOffset"] == it.shell.log.end_offset - 1
        assert after["LastAppliedRecordOffset"] > before["LastAppliedRecordOffset"]
        assert begun_ms <= after["LastAppliedRecordTimestamp"] <= time.time() * 1000

    async with snapshotting(format_dir(tmp_path / "m"), {}) as it:
        await scenario(it)


async def test_topics_are_those_that_are_on_the_disk(tmp_path: Path) -> None:
    async with snapshotting(format_dir(tmp_path / "m"), {}) as it:
        metrics = ControllerMetrics(
            it.shell.leadership, it.shell.committed, it.snapshotter.snapshots
        )
        change = asyncio.create_task(it.change(1))
        while not it.image.topics.by_id:  # noqa: ASYNC110 - of a decision
            await asyncio.sleep(0)
        # Decided, but its fsync is still to come: nobody has been told.
        assert collected(metrics)["GlobalTopicCount"] == 0
        await change
        assert collected(metrics)["GlobalTopicCount"] == 1


async def test_snapshots_have_a_size_and_an_age(tmp_path: Path) -> None:
    async with snapshotting(format_dir(tmp_path / "m"), SETTINGS) as it:
        metrics = ControllerMetrics(
            it.shell.leadership, it.shell.committed, it.snapshotter.snapshots
        )
        prefix = "kafka_server_SnapshotEmitter_LatestSnapshotGenerated"
        assert collected(metrics)[f"{prefix}Bytes"] == 0
        assert collected(metrics)[f"{prefix}AgeMs"] == -1
        await it.settle()
        await it.until(lambda: collected(metrics)[f"{prefix}Bytes"] > 100)
        assert 0 <= collected(metrics)[f"{prefix}AgeMs"] < 20_000


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path) as it:
        yield it


@pytest.mark.process
def test_the_program_serves_them_where_a_port_is_set(process: Process) -> None:
    with HeldPorts.hold(1) as held:
        (port,) = held.numbers
        process.configure(jbodlab_metrics_port=str(port))
        process.start()

        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()

    assert f"\n{PREFIX}ActiveControllerCount 1\n" in text


@pytest.mark.process
def test_a_port_of_somebody_else_ends_the_start_with_one_line(process: Process) -> None:
    process.start()
    taken = process.port
    other = process.home / "second"
    other.mkdir()
    with Process(other) as second:
        second.configure(jbodlab_metrics_port=str(taken))

        lines = second.refused()

    assert "jbodlab.metrics.port" in lines[-1]
    assert str(taken) in lines[-1]
