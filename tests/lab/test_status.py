"""When `jbodlab status` calls a cluster healthy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.kafka_admin.quorum import Quorum
from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster import ClusterSpec, layout, picture
from lab.machine.processes import own_user
from lab.status import Status
from lab.watch.server_log import Failure
from tests.lab.pictures import log_dir_told


@pytest.fixture
def status(tmp_path: Path) -> Status:
    """A whole cluster of two brokers with a directory each."""
    state = layout.plan("x", tmp_path, "id", own_user(), (1, 2, 3), ClusterSpec(brokers=2, disks=1))
    partition = PartitionPicture(leader=1, replicas=(1, 2), isr=(1, 2), offline=())
    return Status(
        state=state,
        alive=frozenset(node.node_id for node in state.nodes),
        brokers=[
            picture.of_node(node, [log_dir_told(path=node.log_dirs[0])]) for node in state.brokers
        ],
        listed=frozenset({1, 2}),
        partitions={TopicPartition("t", 0): partition},
        noticed={},
        faults=(),
        metadata=(tmp_path, 0, -1),
        quorum=Quorum(leader_id=100, leader_epoch=2, high_watermark=7, end_offsets={100: 8}),
    )


def with_dirs(status: Status, told: list[DescribedLogDir] | None) -> Status:
    """The first broker tells something else of its directories."""
    first, second = status.brokers
    return replace(status, brokers=[replace(first, log_dirs=told), second])


def test_a_whole_cluster_is_healthy(status: Status) -> None:
    assert status.is_healthy
    assert status.to_json()["healthy"]


def test_one_with_an_offline_directory_is_not(status: Status) -> None:
    path = status.state.brokers[0].log_dirs[0]
    dead = [log_dir_told(path=path, error="KAFKA_STORAGE_ERROR", sizes={})]

    assert not with_dirs(status, dead).is_healthy


def test_one_whose_broker_names_a_directory_no_more_is_not(status: Status) -> None:
    assert not with_dirs(status, []).is_healthy


def test_one_with_a_broker_that_does_not_answer_is_not(status: Status) -> None:
    assert not with_dirs(status, None).is_healthy


def test_one_whose_node_has_ended_is_not(status: Status) -> None:
    assert not replace(status, alive=frozenset({1, 2})).is_healthy


def test_one_with_a_fenced_broker_is_not(status: Status) -> None:
    assert not replace(status, listed=frozenset({1})).is_healthy


def test_one_with_a_partition_without_leader_is_not(status: Status) -> None:
    gone = PartitionPicture(leader=-1, replicas=(1, 2), isr=(1,), offline=(1,))

    assert not replace(status, partitions={TopicPartition("t", 0): gone}).is_healthy


def test_what_is_offline_tells_when_its_broker_noticed_and_which_source_says_so(
    status: Status,
) -> None:
    path = status.state.brokers[0].log_dirs[0]
    dead = [log_dir_told(path=path, error="KAFKA_STORAGE_ERROR", sizes={})]
    failure = Failure(path=path, cause="Error while writing", wall_ms=1)
    theirs = replace(
        with_dirs(status, dead),
        state=msgspec.structs.replace(status.state, spec={"engine": "kafka:4.3.1"}),
        noticed={path: failure},
    )

    (of_first,) = theirs.to_json()["nodes"][1]["log_dirs"]
    assert of_first["state"] == "OFFLINE"
    assert of_first["noticed"] == {
        "by": "log of the broker",
        "at": "1970-01-01T00:00:00.001+00:00",
        "cause": "Error while writing",
    }
    assert "(log of the broker): Error while writing" in theirs.text()
    assert theirs.to_json()["nodes"][2]["log_dirs"][0]["noticed"] is None


def test_what_our_brokers_say_of_a_directory_is_told_to_people_and_programs(status: Status) -> None:
    path = status.state.brokers[0].log_dirs[0]
    told = log_dir_told(
        path=path, error="KAFKA_STORAGE_ERROR", sizes={}, state="RECOVERING", cause="I/O error"
    )
    found = with_dirs(status, [told])

    (of_first,) = found.to_json()["nodes"][1]["log_dirs"]
    assert (of_first["state"], of_first["cause"]) == ("RECOVERING", "I/O error")
    assert "OFFLINE (KAFKA_STORAGE_ERROR)" in found.text()
    assert "       I/O error" in found.text().splitlines()


def test_a_controller_is_active_or_stands_by(tmp_path: Path, status: Status) -> None:
    ports = range(1, 5)
    spec = ClusterSpec(brokers=1, disks=1, controllers=3)
    state = layout.plan("x", tmp_path, "id", own_user(), ports, spec, grpc_ports=range(5, 8))
    several = replace(
        status,
        state=state,
        brokers=[],
        alive=frozenset({100, 101, 1}),
        quorum=Quorum(
            leader_id=101, leader_epoch=4, high_watermark=7, end_offsets={100: 5, 101: 8, 102: -1}
        ),
    )

    told = several.to_json()["controllers"]
    assert [(each["id"], each["role"], each["end_offset"]) for each in told] == [
        (100, "standby", 5),
        (101, "active", 8),
        (102, None, None),
    ]
    text = several.text()
    assert "standby, 3 records behind" in text
    assert "active in epoch 4" in text
    assert [each["role"] for each in replace(several, quorum=None).to_json()["controllers"]] == [
        None
    ] * 3
