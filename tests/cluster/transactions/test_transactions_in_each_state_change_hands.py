"""Transactions in every state change hands: brokers of Apache Kafka take ours, and ours theirs."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from broker.transactions.transaction import Transaction, from_value, prepared, to_record
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.record_batch.record_batch import (
    CONTROL,
    TRANSACTIONAL,
    iterate_headers,
    iterate_records,
)
from jbodlab.transaction_records.records import decode, encode
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tests.cluster.harness import wait_for
from tests.cluster.shared_directories import Directories
from tests.cluster.shared_transactions import TOPIC, read
from tests.cluster.stopped_logs import append, log_of
from tests.cluster.transactional_requests import (
    VERSIONS,
    Broker,
    RequestProducer,
    end_of,
    entity,
    errors_of,
)
from tests.kafka.tools import DUMP_LOG, KafkaTools
from tests.storage_tool.dumping import dump

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300)]

KINDS = ("committed", "aborted", "left", "fenced", "to commit", "to abort")
"""The state of a transaction before the hands change, or after."""
ENDED = {"to commit": "CompleteCommit", "to abort": "CompleteAbort"}
"""How those end that were decided when the brokers stopped."""
OFFSET = 7
DECODERS = {
    TOPIC: ("--print-data-log",),
    GROUP_METADATA_TOPIC: ("--offsets-decoder",),
    TRANSACTION_STATE_TOPIC: ("--transaction-log-decoder",),
}


@pytest.fixture
def directories(cluster_root: Path, kafka_tools: KafkaTools) -> Iterator[Directories]:
    found = Directories(cluster_root, kafka_tools)
    yield found
    found.close()


class Left:
    """Transactions in each state, of clients of both versions, that a cluster is left with.

    Each has written its text to both partitions, and committed an offset of the group of that name.

    Attributes:
        last_stable: Ends of the partitions for readers of what is committed, when all was written.
    """

    def __init__(self, broker: Broker, prefix: str) -> None:
        self._prefix = prefix
        self._producers = {
            (kind, version): RequestProducer(broker, self.text(kind, version), version)
            for version in VERSIONS
            for kind in KINDS
        }
        for (kind, version), each in self._producers.items():
            each.begin().write(TOPIC, range(2), self.text(kind, version))
            each.send_offset(self.text(kind, version), TOPIC, OFFSET)
        for version in VERSIONS:
            self.of("committed", version).end(commit=True)
            self.of("aborted", version).end(commit=False)
        wait_for("both ends", lambda: states(broker, self) == self.states(), 60)
        self.last_stable = ends(broker)

    def of(self, kind: str, version: int) -> RequestProducer:
        return self._producers[kind, version]

    def text(self, kind: str, version: int) -> str:
        return f"{self._prefix} {kind} {version}"

    def names(self, *kinds: str) -> list[str]:
        return [self.text(kind, version) for kind in kinds for version in VERSIONS]

    def states(self, of: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
        """The states that are expected; those not given are what they were made."""
        found = {"committed": "CompleteCommit", "aborted": "CompleteAbort", **of}
        return {name: found.get(kind, "Ongoing") for kind in KINDS for name in self.names(kind)}

    def decide(self, root: Path) -> None:
        """Decide how some end on the disks of a stopped broker; one of two markers is written."""
        for kind in ENDED:
            for name in self.names(kind):
                decide(root, name, commit=kind == "to commit")

    def go_on_with(self, broker: Broker) -> None:
        """Let the same producers ask another broker."""
        for each in self._producers.values():
            each.broker = broker


def decide(root: Path, transactional_id: str, *, commit: bool) -> None:
    """Append what a broker writes when a producer ends its transaction, and then dies."""
    before = last_of(root, transactional_id)
    after = prepared(before, commit, before.transaction_version, int(time.time() * 1000))
    append(root, TRANSACTION_STATE_TOPIC, encode(to_record(transactional_id, after, 2)))
    append(
        root,
        TOPIC,
        (struct.pack(">hh", 0, commit), struct.pack(">hi", 0, 0)),
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=after.producer_id,
        producer_epoch=after.producer_epoch,
    )


def last_of(root: Path, transactional_id: str) -> Transaction:
    """The last state of a transactional id on the disks."""
    data = log_of(root, TRANSACTION_STATE_TOPIC).read_bytes()
    found = None
    for position, header in iterate_headers(data):
        for record in iterate_records(data, position, header):
            key, value, _ = decode(record.key, record.value)
            found = value if key.transactional_id == transactional_id else found
    assert found is not None
    return from_value(found)


def states(broker: Broker, left: Left) -> dict[str, str]:
    """The states of these transactions."""
    answer = broker.until_done(
        ApiKey.LIST_TRANSACTIONS, 0, state_filters=(), producer_id_filters=()
    )
    found = {each.transactional_id: each.transaction_state for each in answer.transaction_states}
    return {name: found.get(name, "") for name in left.states()}


def ends(broker: Broker, *, committed: bool = True) -> list[int]:
    """The ends of both partitions."""
    return [end_of(broker, TOPIC, each, committed=committed) for each in range(2)]


def offsets(broker: Broker, groups: list[str]) -> dict[str, int]:
    """The stable offsets of groups; -88 for one of an open transaction."""
    key, version = ApiKey.OFFSET_FETCH, 8
    where = entity(key, version, "OffsetFetchRequestTopics", name=TOPIC, partition_indexes=(0,))
    asked = tuple(
        entity(key, version, "OffsetFetchRequestGroup", group_id=group, topics=(where,))
        for group in groups
    )
    answer = broker.until_done(key, version, groups=asked, require_stable=True)
    found = {}
    for group in answer.groups:
        ((partition,),) = (each.partitions for each in group.topics)
        unstable = int(partition.error_code)
        found[group.group_id] = -unstable if unstable else partition.committed_offset
    return found


def taken_over(broker: Broker, left: Left, *, by_kafka: bool) -> list[str]:
    """Check what a broker makes of transactions; returns the records that it shows in the end."""
    left.go_on_with(broker)
    wait_for(
        "decided ends",
        lambda: states(broker, left) == left.states(ENDED),
        60,
        last_seen=lambda: states(broker, left),
    )
    assert ends(broker) == left.last_stable
    nobody = dict.fromkeys(left.names("aborted", "to abort"), -1)
    seen = dict.fromkeys(left.names("committed", "to commit"), OFFSET) | nobody
    unstable = dict.fromkeys(left.names("left", "fenced"), -ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert offsets(broker, [*seen, *unstable]) == seen | unstable

    for version in VERSIONS:
        # A producer whose answer was lost repeats; Kafka does not know the epoch before.
        if not (by_kafka and version):
            left.of("to commit", version).end(commit=True)
        left.of("left", version).write(TOPIC, range(2), left.text("left", version))
        left.of("left", version).end(commit=True)
        old = left.of("fenced", version)
        RequestProducer(broker, left.text("fenced", version), version).begin()
        assert errors_of(old.produced(TOPIC, 0, "late")) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert errors_of(old.ended(commit=True)) == [ErrorCode.PRODUCER_FENCED]

    wait_for("no open transaction", lambda: ends(broker) == ends(broker, committed=False), 60)
    now = dict.fromkeys(left.names("left"), OFFSET) | dict.fromkeys(left.names("fenced"), -1)
    assert offsets(broker, [*seen, *now]) == seen | now
    return [*left.names("committed", "to commit", "left"), *left.names("left")]


def test_transactions_in_each_state_change_hands_in_both_directions(
    directories: Directories, kafka_tools: KafkaTools, cluster_root: Path
) -> None:
    expected: list[str] = []
    left: Left | None = None
    for by_kafka, prefix in ((False, "ours"), (True, "theirs"), (False, "last")):
        with (
            directories.served(by_kafka=by_kafka) as cluster,
            Broker(cluster.node(1).port) as broker,
        ):
            if left is None:
                cluster.create_topic(TOPIC, 2, 1)
            else:
                expected += taken_over(broker, left, by_kafka=by_kafka)
                end = RequestProducer(broker, "end", 2).begin()
                end.write(TOPIC, range(2), prefix)
                end.end(commit=True)
                expected.append(prefix)
                assert read(cluster, prefix) == sorted(expected * 2)
            left = Left(broker, prefix)
        left.decide(cluster_root)
        assert_dumped_alike(kafka_tools, cluster_root)


def assert_dumped_alike(tools: KafkaTools, root: Path) -> None:
    """Both dump tools print the same of every file that knows of transactions."""
    for topic, options in DECODERS.items():
        found = sorted(
            path
            for path in root.glob(f"broker-*/disk-*/data/{topic}-*/*")
            if path.suffix in (".log", ".txnindex", ".snapshot")
        )
        assert {path.suffix for path in found} >= {".log", ".snapshot"}
        if topic == TOPIC:
            assert any(path.suffix == ".txnindex" and path.stat().st_size for path in found)
        theirs = tools.run(DUMP_LOG, *options, "--files", ",".join(map(str, found)))
        assert (theirs.code, theirs.err) == (0, "")
        assert dump(*options, *found).lines == theirs.lines
