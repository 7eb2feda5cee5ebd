from __future__ import annotations

from uuid import UUID

import pytest

from admin_tool.what_if import BrokerSeen, as_model, metadata_dir, needing
from jbodlab.cli.dir_names import dir_or_broker
from jbodlab.kafka_admin.client import Broker
from jbodlab.kafka_admin.errors import AdminError, RequestError
from jbodlab.kafka_admin.features import Features
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, HeldReplica
from jbodlab.kafka_admin.topics import PartitionDescription, TopicDescription
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.what_if import failure as failures
from jbodlab.what_if.cluster import ANYWHERE, Cluster, WhatIfError
from jbodlab.what_if.figures import metrics, named
from jbodlab.what_if.losses import losses
from jbodlab.what_if.told import failure_text, losses_text, losses_value, removal_text

NEWEST = Features(finalized={}, supported={"metadata.version": 30})


def held(partition: int, *, topic: str = "t", size: int = 10, future: bool = False) -> HeldReplica:
    return HeldReplica(
        topic=topic, partition=partition, size_bytes=size, offset_lag=0, is_future=future
    )


def seen(broker: int, *log_dirs: DescribedLogDir, metadata: str = "") -> BrokerSeen:
    one = Broker(id=broker, host="h", port=1, rack=f"r{broker}")
    return BrokerSeen(broker=one, log_dirs=log_dirs, metadata_dir=metadata)


def log_dir(path: str, *replicas: HeldReplica, error: int = 0) -> DescribedLogDir:
    return DescribedLogDir(path=path, error_code=error, replicas=replicas, usable_bytes=1000)


def model(
    *brokers: BrokerSeen,
    partitions: tuple[PartitionDescription, ...],
    features: Features = NEWEST,
    unclean: str = "false",
) -> Cluster:
    topic = TopicDescription(name="t", topic_id=UUID(int=1), partitions=partitions)
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": unclean}
    return as_model(brokers, {"t": topic}, {"t": settings}, features)


def described(index: int, *replicas: int, **fields: object) -> PartitionDescription:
    values = {"leader": replicas[0], "isr": replicas, "elr": ()} | fields
    return PartitionDescription(index=index, replicas=replicas, **values)  # type: ignore[arg-type]


def test_a_replica_lies_where_its_broker_says_and_a_copy_on_its_way_does_not_count() -> None:
    found = model(
        seen(1, log_dir("/a", held(0, size=7)), log_dir("/b", held(0, future=True))),
        seen(2, log_dir("/a"), log_dir("/b", held(0, size=5))),
        partitions=(described(0, 1, 2, 3, isr=(1, 2), offline=(3,)),),
    )

    (one,) = found.placed
    assert one.directories == (0, 3, ANYWHERE)
    assert one.sizes == (7, 5, 0)
    assert one.alive == (True, True, False)


def test_replicas_of_topics_that_may_not_be_described_are_counted() -> None:
    found = model(
        seen(1, log_dir("/a", held(0), held(0, topic="secret")), log_dir("/b")),
        partitions=(described(0, 1),),
    )

    assert losses(found).directories[0].undescribed == 1
    assert not losses(found).directories[0].is_harmless
    assert losses(found).directories[1].is_harmless
    assert "1 replica of topics" in losses_text(found, losses(found), 1e8)


@pytest.mark.parametrize(("level", "is_held"), [(20, False), (21, True)])
def test_controllers_before_3_9_hold_no_unclean_election(level: int, is_held: bool) -> None:
    found = model(
        seen(1, log_dir("/a", held(0)), log_dir("/b")),
        seen(2, log_dir("/a", held(0)), log_dir("/b")),
        partitions=(described(0, 1, 2, isr=(1,)),),
        features=Features(finalized={}, supported={"metadata.version": level}),
        unclean="true",
    )

    assert losses(found).directories[0].unclean == is_held
    assert losses(found).directories[0].leaderless == (not is_held)


def test_eligible_leader_replicas_count_where_the_feature_is_finalized() -> None:
    features = Features(
        finalized={"eligible.leader.replicas.version": 1}, supported=NEWEST.supported
    )
    brokers = (seen(1, log_dir("/a")), seen(2, log_dir("/a")))

    found = model(*brokers, partitions=(described(0, 1, 2, isr=(1,), elr=(2,)),), features=features)

    assert found.has_elr
    assert found.placed[0].elr == (2,)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"log.dirs": "/d1/, /d2", "metadata.log.dir": None}, "/d1"),
        ({"log.dirs": "/d1,/d2", "metadata.log.dir": "/d2//"}, "/d2"),
        ({"log.dirs": None, "log.dir": "/tmp/logs"}, "/tmp/logs"),
        ({}, ""),
    ],
)
def test_the_metadata_log_is_in_its_directory_or_in_the_first_one(
    settings: dict[str, str | None], path: str
) -> None:
    assert metadata_dir(settings) == path


def test_a_refused_request_names_the_right() -> None:
    wanted = "DESCRIBE on the cluster: CLUSTER_AUTHORIZATION_FAILED"
    with pytest.raises(AdminError, match=wanted), needing("DESCRIBE on the cluster"):
        raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(RequestError), needing("DESCRIBE on the cluster"):
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)


def test_figures_metrics_and_json_tell_the_same() -> None:
    found = model(
        seen(1, log_dir("/a", held(0, size=10), held(1, size=5)), log_dir("/b"), metadata="/a"),
        seen(2, log_dir("/a", held(1, size=5)), log_dir("/b")),
        partitions=(described(0, 1), described(1, 1, 2)),
    )
    counted = losses(found)

    figures = named(counted, 5.0)
    assert (figures["last_copies"], figures["broker.last_copies"]) == (1, 1)
    assert (figures["pair.last_copies"], figures["rack.leaderless"]) == (2, 1)
    assert (figures["copy_bytes"], figures["copy_ms"]) == (5, 1000)
    by_name = {one.name: one.samples for one in metrics(found, counted, 5.0)}
    labels = {"broker": "1", "log_dir": "/a"}
    assert by_name["jbodlab_what_if_directory_last_copies"][0] == ("", labels, 1.0)
    assert by_name["jbodlab_what_if_directory_copy_seconds"][0] == ("", labels, 1.0)
    (first, *_) = losses_value(found, counted, 5.0)["directories"]
    assert (first["log_dir"], first["last_copies"], first["copy_seconds"]) == ("/a", 1, 1.0)
    assert (first["takes_broker"], first["leaders_moved_to"]) == (True, {"2": 1})


def asked(found: Cluster, name: str) -> tuple[bool, str]:
    """Whether a directory or a broker may be taken out, and what is said."""
    failure = failures.named(found, dir_or_broker(name))
    loss, of_each = failures.effects(found, failure)
    return loss.is_harmless, removal_text(found, name, failure, loss, of_each)


def test_a_broker_that_does_not_answer_counts_as_failed_and_is_named() -> None:
    silent = BrokerSeen(
        broker=Broker(id=2, host="h", port=1, rack="r2"), silence="no connection to broker 2"
    )
    found = model(
        seen(1, log_dir("/a", held(0), held(1)), log_dir("/b")),
        silent,
        seen(3, log_dir("/a", held(1)), log_dir("/b")),
        partitions=(described(0, 1, 2), described(1, 1, 2, 3)),
    )

    assert losses(found).racks["r2"].replicas == 2
    assert found.notes == [
        "broker 2 is unresponsive (no connection to broker 2): it counts as failed, and the "
        "directories and bytes of its replicas are not known (0 bytes are counted)"
    ]
    assert asked(found, "broker-3:/a")[0]
    is_ok, text = asked(found, "broker-1:/a")
    assert not is_ok
    assert text.splitlines() == [
        "no: without broker-1:/a 1 partition would suffer",
        "  t-0  no other replica has all of its records; nobody could lead",
        *found.notes,
    ]
    with pytest.raises(WhatIfError, match="broker 2 is unresponsive: its directories are not kn"):
        asked(found, "broker-2:/a")
    assert asked(found, "broker-2")[0]


def test_a_broker_that_is_not_listed_and_has_replicas_is_no_stranger() -> None:
    found = model(
        seen(1, log_dir("/a", held(0)), log_dir("/b")),
        partitions=(described(0, 1, 2, isr=(1,)), described(1, 2, leader=None, isr=(2,))),
    )

    is_ok, text = asked(found, "broker-2")
    assert not is_ok
    assert text.splitlines() == [
        "no: without broker-2 1 partition would suffer",
        "  t-1  no other replica has all of its records",
        "broker 2 is fenced or unregistered: the directories and bytes of its replicas are not "
        "known (0 bytes are counted)",
    ]
    failure = failures.of_broker(found, 2)
    shown = failure_text(found, failure, *failures.effects(found, failure), 1e8)
    assert "  broker 2 is fenced or unregistered already" in shown.splitlines()
    with pytest.raises(WhatIfError, match="broker 2 is fenced or unregistered: its directories"):
        asked(found, "broker-2/1")
    with pytest.raises(WhatIfError, match="broker 3 is unknown; known: 1, 2"):
        asked(found, "broker-3")


@pytest.mark.parametrize(
    ("isr", "is_ok"),
    [((1,), True), ((1, 2), True), ((2,), False)],
    ids=["left the ISR", "not yet taken out of the ISR", "last copy"],
)
def test_an_offline_directory_may_be_taken_out_unless_a_last_copy_may_be_in_it(
    isr: tuple[int, ...], is_ok: bool
) -> None:
    leader = 1 if 1 in isr else None
    found = model(
        seen(1, log_dir("/a", held(0)), log_dir("/b")),
        seen(2, log_dir("/a", error=ErrorCode.KAFKA_STORAGE_ERROR), log_dir("/b")),
        partitions=(described(0, 1, 2, leader=leader, isr=isr, offline=(2,)),),
    )

    assert asked(found, "broker-2:/a")[0] is is_ok
    assert asked(found, "broker-2:/a")[1].startswith("yes" if is_ok else "no")
    # Without the other one the broker stops; all that it serves is there.
    assert asked(found, "broker-2:/b")[0] is is_ok
