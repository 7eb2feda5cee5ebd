"""When a damaged replica is taken from a running broker, and that it is always given back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from admin_tool.log_dir_actions import repair_online
from admin_tool.log_dir_actions.repair_online import (
    Damaged,
    Facts,
    log_dir_of,
    online_repair_refusal,
    recreate,
)
from admin_tool.log_dir_actions.table import BrokerDirs
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, HeldReplica, Replica, ReplicaDirs
from jbodlab.kafka_admin.topics import PartitionDescription, TopicDescription
from jbodlab.runtime import event_loop
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.directory_id import DirectoryId
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

TP = TopicPartition("orders", 0)
TOPIC_ID, OTHER_ID = UUID(int=5), UUID(int=6)
HELD = HeldReplica(topic="orders", partition=0, size_bytes=1, offset_lag=0, is_future=False)
LOG_DIR = DescribedLogDir(path="/d1", error_code=0, replicas=(HELD,))


def topic(*isr: int, leader: int = 1, replicas: tuple[int, ...] = (1, 2, 3)) -> TopicDescription:
    one = PartitionDescription(index=0, leader=leader, replicas=replicas, isr=isr)
    return TopicDescription(name="orders", topic_id=TOPIC_ID, partitions=(one,))


FACTS = Facts(
    broker=2,
    topic_partition=TP,
    topic_id=TOPIC_ID,
    topic=topic(1, 2, 3),
    min_isr=2,
    is_reassigned=False,
    dirs=BrokerDirs(broker=2, log_dirs=(LOG_DIR,)),
    log_dir=LOG_DIR,
)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (FACTS, None),
        (replace(FACTS, topic_id=OTHER_ID), "a replica of another topic of this name"),
        (replace(FACTS, topic_id=None), "has no topic id"),
        (replace(FACTS, topic=None), "knows no such replica"),
        (replace(FACTS, topic=topic(1, 2, 3, leader=2)), "broker 2 leads"),
        (replace(FACTS, log_dir=None), "does not have orders-0 in this directory"),
        (replace(FACTS, log_dir=replace(LOG_DIR, replicas=())), "does not have orders-0"),
        (replace(FACTS, log_dir=replace(LOG_DIR, is_cordoned=True)), "/d1 takes no replicas"),
        (replace(FACTS, is_reassigned=True), "being reassigned"),
    ],
)
def test_a_replica_is_taken_only_from_who_has_it_and_gets_it_back(
    facts: Facts, why: str | None
) -> None:
    refusal = online_repair_refusal(facts)

    assert refusal is None if why is None else why in str(refusal)


@pytest.mark.parametrize(
    ("isr", "min_isr", "is_refused"),
    [
        ((1, 2), 1, False),
        ((1, 2), 2, True),
        ((1, 2, 3), 2, False),
        ((1, 2, 3), 3, True),
        # It takes nothing from a broker that has no such batch.
        ((1,), 2, False),
        ((1, 3), 3, False),
    ],
)
def test_a_replica_stays_where_the_isr_would_become_too_small(
    isr: tuple[int, ...], min_isr: int, is_refused: bool
) -> None:
    refusal = online_repair_refusal(replace(FACTS, topic=topic(*isr), min_isr=min_isr))

    assert (refusal is not None) is is_refused
    if refusal is not None:
        assert f"min.insync.replicas is {min_isr}" in refusal
        assert "add a replica on another broker first" in refusal


def test_a_directory_is_known_by_its_id_and_by_its_path_where_ids_are_not_told() -> None:
    ours = DirectoryId(UUID(int=9))
    elsewhere = replace(LOG_DIR, path="/in/the/container")
    meta = MetaProperties(cluster_id="c", node_id=2, directory_id=ours)
    named = replace(elsewhere, directory_id=kafka_uuid.to_text(ours))
    told = BrokerDirs(broker=2, log_dirs=(LOG_DIR, named))
    untold = BrokerDirs(broker=2, log_dirs=(LOG_DIR, elsewhere))

    assert log_dir_of(told, meta, Path("/d1")) == named
    assert log_dir_of(untold, meta, Path("/d1")) == LOG_DIR
    assert log_dir_of(untold, meta, Path("/d7")) is None


@dataclass
class FakeCluster:
    """A partition whose brokers do at once what they are told, where nothing is set."""

    folder: Path
    replicas: tuple[int, ...] = (1, 2, 3)
    removes: bool = True
    copies: bool = True
    refusals: list[dict[TopicPartition, str]] = field(default_factory=list)
    dir_code: int = ErrorCode.REPLICA_NOT_AVAILABLE
    lost_at: str = ""

    async def alter(
        self, _: object, targets: Mapping[TopicPartition, Sequence[int]]
    ) -> Mapping[Any, str]:
        refused = self.refusals.pop(0) if self.refusals else {}
        if TP not in refused:
            self.replicas = tuple(targets[TP])
            if 2 not in self.replicas and self.removes:
                self.folder.rmdir()
        return refused

    async def ongoing(self, _: object, partitions: Iterable[TopicPartition]) -> dict[Any, Any]:
        if self.lost_at == "ongoing":
            raise AdminError("no connection to broker 1")
        return {}

    async def place(
        self, _: object, broker: int, places: Mapping[TopicPartition, str]
    ) -> dict[Any, int]:
        assert (broker, places) == (2, {TP: "/d1"})
        return {TP: int(self.dir_code)}

    async def describe(self, _: object, names: Iterable[str]) -> dict[str, TopicDescription]:
        isr = self.replicas if self.copies else (1, 3)
        return {"orders": topic(*isr, replicas=self.replicas)}

    async def where(self, _: object, replicas: Sequence[Replica]) -> dict[Replica, ReplicaDirs]:
        return {each: ReplicaDirs("/d2", None) for each in replicas}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster(tmp_path / "orders-0")
    fake.folder.mkdir()
    monkeypatch.setattr(repair_online, "alter_reassignments", fake.alter)
    monkeypatch.setattr(repair_online, "list_reassignments", fake.ongoing)
    monkeypatch.setattr(repair_online, "alter_replica_log_dirs", fake.place)
    monkeypatch.setattr(repair_online, "describe_topics", fake.describe)
    monkeypatch.setattr(repair_online, "replica_dirs", fake.where)
    for name in ("REMOVAL_PATIENCE_S", "COPY_PATIENCE_S", "GIVE_BACK_PATIENCE_S", "LOOK_PAUSE_S"):
        monkeypatch.setattr(repair_online, name, 0.0)
    return fake


def recreated(cluster: FakeCluster) -> dict[TopicPartition, str]:
    one = Damaged(path="/d1", folder=cluster.folder, broker=2, replicas=(1, 2, 3), leader=1)
    client: Any = None
    return event_loop.run(recreate(client, {TP: one}))


def test_a_replica_is_recreated(cluster: FakeCluster) -> None:
    assert recreated(cluster) == {}
    assert cluster.replicas == (1, 2, 3)
    assert not cluster.folder.exists()


def test_what_the_cluster_refuses_to_take_away_is_not_mended(cluster: FakeCluster) -> None:
    cluster.refusals = [{TP: "POLICY_VIOLATION"}]

    assert recreated(cluster) == {TP: "POLICY_VIOLATION"}
    assert cluster.folder.exists()


def test_a_folder_that_does_not_go_ends_the_wait_and_the_replica_is_given_back(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.removes = False

    assert recreated(cluster) == {
        TP: "broker 2 has not removed it within 0 s; it was given back as it is"
    }
    assert cluster.replicas == (1, 2, 3)
    assert f"waiting until the brokers have removed {cluster.folder}" in capsys.readouterr().err


def test_a_replica_is_given_back_where_the_cluster_cannot_be_asked_in_between(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.lost_at = "ongoing"

    with pytest.raises(AdminError, match="no connection to broker 1"):
        recreated(cluster)
    assert cluster.replicas == (1, 2, 3)
    assert capsys.readouterr().err.endswith("the replicas were given back\n")


def test_what_cannot_be_given_back_is_said_with_the_way_to_do_it(cluster: FakeCluster) -> None:
    cluster.refusals = [{}, *[{TP: "NOT_CONTROLLER"}] * 100]

    with pytest.raises(AdminError) as raised:
        recreated(cluster)
    assert str(raised.value) == (
        "replicas could not be given back; set them by `jbodlab reassign`: "
        "orders-0 to 1,2,3 (NOT_CONTROLLER)"
    )


@pytest.mark.parametrize(
    "code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_REPLICA_ASSIGNMENT]
)
def test_a_refused_directory_is_not_called_repaired(cluster: FakeCluster, code: ErrorCode) -> None:
    cluster.dir_code = code

    assert recreated(cluster) == {
        TP: f"broker 2 refused to create it in /d1 ({code.name}), and has copied it from broker 1 "
        "to /d2"
    }
    assert cluster.replicas == (1, 2, 3)


def test_a_copy_that_is_late_is_not_called_repaired(cluster: FakeCluster) -> None:
    cluster.copies = False

    assert "is not in sync after 0 s; the copy goes on" in recreated(cluster)[TP]
