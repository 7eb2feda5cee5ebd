"""Transactions of one broker, one of whose directories dies and comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TRANSACTION_STATE_TOPIC
from lab.cluster.log_dir_states import offline, revive
from lab.machine.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, running, wait_for
from tests.cluster.shared_directories import SETTINGS
from tests.cluster.transactional_requests import (
    TIMEOUT,
    Broker,
    CoordinatorType,
    RequestProducer,
    end_of,
    errors_of,
)

pytestmark = pytest.mark.cluster

TOPIC, PARTITIONS, COORDINATORS = "orders", 4, 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    root = make_folder()
    settings = {
        **SETTINGS,
        "transaction.state.log.num.partitions": str(COORDINATORS),
        "offsets.topic.replication.factor": "1",
    }
    try:
        with running(root / "cluster", brokers=1, dirs=2, settings=settings) as found:
            found.create_topic(TOPIC, PARTITIONS, 1)
            yield found
    finally:
        remove_folder(root)


def states(broker: Broker, *names: str) -> list[str]:
    answer = broker.until_done(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=names)
    return [each.transaction_state for each in answer.transaction_states]


def of_coordinators(wanted: set[int], text: str) -> str:
    """A transactional id of one of these coordinators."""
    names = (f"{text} {number}" for number in range(1_000))
    return next(name for name in names if coordinator_partition(name, COORDINATORS) in wanted)


@pytest.mark.parametrize("version", [0, 2])
def test_txn_one_broker_two_directories(cluster: Cluster, version: int) -> None:
    node = cluster.broker(1)
    with Broker(node.port) as broker:
        broker.find_coordinator(CoordinatorType.TRANSACTION, "x")
        lost = node.log_dir_of(TOPIC, 0)
        data = {each for each in range(PARTITIONS) if node.log_dir_of(TOPIC, each) != lost}
        kept = {
            each
            for each in range(COORDINATORS)
            if node.log_dir_of(TRANSACTION_STATE_TOPIC, each) != lost
        }
        assert data
        assert kept
        there = min(data)
        before = {each: end_of(broker, TOPIC, each) for each in (0, there)}
        whole_name, touching_name = (
            of_coordinators(kept, f"whole {version}"),
            of_coordinators(kept, f"touching {version}"),
        )
        whole = RequestProducer(broker, whole_name, version).begin()
        touching = RequestProducer(broker, touching_name, version).begin()
        whole.write(TOPIC, [there], "open")
        touching.write(TOPIC, [0, there], "open")

        with lost.fails("permission"):
            wait_for("the failure", lambda: [each.path for each in offline(node)])
            whole.end(commit=True)
            whole.write(TOPIC, [there], "next")
            whole.end(commit=True)
            touching.end(commit=True)
            # A decided end waits for the directory; all else of it is committed already.
            wait_for("its end", lambda: states(broker, whole_name) == ["CompleteCommit"])
            wait_for("what is whole", lambda: end_of(broker, TOPIC, there) == before[there] + 6)
            assert states(broker, touching_name) == ["PrepareCommit"]
            again = broker.ask(
                ApiKey.INIT_PRODUCER_ID,
                4,
                transactional_id=touching_name,
                transaction_timeout=TIMEOUT,
                producer_id=-1,
                producer_epoch=-1,
            )
            assert errors_of(again) == [ErrorCode.CONCURRENT_TRANSACTIONS]

        assert revive(node, str(lost.path)) == ""
        wait_for("the end", lambda: states(broker, touching_name) == ["CompleteCommit"])
        assert end_of(broker, TOPIC, 0) == before[0] + 2
        touching.write(TOPIC, [0, there], "after")
        touching.end(commit=True)
