"""Transactional producers made of single requests, which speak one version of transactions each.

A client hides in which step of a transaction it is; here each step is a call, so that a cluster can
be stopped between any two of them.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Self

from jbodlab.kafka_wire.api_table import ApiKey, request_class
from jbodlab.peers.client import KafkaConnection
from jbodlab.record_batch.record_batch import TRANSACTIONAL, build_batch
from jbodlab.vocabulary.error_code import ErrorCode

TIMEOUT = dt.timedelta(minutes=10)
"""Of transactions that are ended by nobody but their producers."""
LONG_S = 60.0
PAUSE_S = 0.05
AGAIN = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors after which every client asks again."""
VERSIONS = {
    0: {
        ApiKey.PRODUCE: 11,
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 3,
        ApiKey.ADD_OFFSETS_TO_TXN: 3,
        ApiKey.END_TXN: 4,
        ApiKey.TXN_OFFSET_COMMIT: 4,
    },
    2: {
        ApiKey.PRODUCE: 12,
        ApiKey.INIT_PRODUCER_ID: 5,
        ApiKey.END_TXN: 5,
        ApiKey.TXN_OFFSET_COMMIT: 5,
    },
}
"""The requests of clients that speak a version of transactions."""


class CoordinatorType(IntEnum):
    """Of which kind a coordinator is."""

    GROUP = 0
    TRANSACTION = 1


class Broker:
    """Requests to one broker, one after the other, on a connection that stays."""

    def __init__(self, port: int) -> None:
        self._runner = asyncio.Runner()
        self._connection = self._runner.run(
            KafkaConnection.open("127.0.0.1", port, client_id="requests", timeout_s=LONG_S)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._runner.close()

    def ask(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Send a request with these fields; returns the entity that answers it."""
        request = request_class(key, version)(**fields)
        return self._runner.run(self._connection.call(key, version, request, LONG_S))

    def until_done(self, key: ApiKey, version: int, /, **fields: Any) -> Any:
        """Ask until the answer has no error after which clients ask again."""
        end_s = time.monotonic() + LONG_S
        while True:
            answer = self.ask(key, version, **fields)
            if not set(errors_of(answer)) & AGAIN:
                return answer
            assert time.monotonic() < end_s, answer
            time.sleep(PAUSE_S)

    def find_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """Wait until there is a coordinator; its topic is created by the first question."""
        self.until_done(ApiKey.FIND_COORDINATOR, 1, key=key, key_type=kind)


def errors_of(answer: Any) -> list[ErrorCode]:
    """Return all errors of an answer, wherever they are."""
    if isinstance(answer, tuple):
        return [error for each in answer for error in errors_of(each)]
    found = []
    for name in getattr(type(answer), "__dataclass_fields__", ()):
        value = getattr(answer, name)
        if name.endswith("error_code"):
            found += [ErrorCode(int(value))] if int(value) else []
        else:
            found += errors_of(value)
    return found


def entity(key: ApiKey, version: int, name: str, /, **fields: Any) -> Any:
    """Return a part of a request, by the name of its class."""
    return getattr(sys.modules[request_class(key, version).__module__], name)(**fields)


def end_of(broker: Broker, topic: str, partition: int, *, committed: bool = True) -> int:
    """Return the end of a partition, for readers of what is committed or of everything."""
    key, version = ApiKey.LIST_OFFSETS, 8
    asked = entity(
        *(key, version, "ListOffsetsPartition"),
        partition_index=partition,
        current_leader_epoch=-1,
        timestamp=-1,
    )
    answer = broker.until_done(
        *(key, version),
        replica_id=-1,
        isolation_level=committed,
        topics=(entity(key, version, "ListOffsetsTopic", name=topic, partitions=(asked,)),),
    )
    return int(answer.topics[0].partitions[0].offset)


class RequestProducer:
    """A transactional producer.

    Attributes:
        producer_id: As the last answer said.
        producer_epoch: Likewise.
    """

    def __init__(self, broker: Broker, transactional_id: str, version: int) -> None:
        """Take the broker, which is coordinator and leader of everything.

        Args:
            broker: Where requests go.
            transactional_id: Whose transactions they are.
            version: Of transactions: a key of `VERSIONS`.
        """
        self.broker = broker
        self._id = transactional_id
        self.speak(version)
        self.producer_id = self.producer_epoch = -1
        self._sequences: defaultdict[tuple[str, int], int] = defaultdict(int)

    def speak(self, version: int) -> None:
        """Go on with another version, as a client does that hears of another level."""
        self._versions = VERSIONS[version]

    def begin(self) -> Self:
        """Have a producer id and an epoch; whoever had an older one is fenced."""
        self.broker.find_coordinator(CoordinatorType.TRANSACTION, self._id)
        answer = self._done(
            ApiKey.INIT_PRODUCER_ID,
            transaction_timeout=TIMEOUT,
            producer_id=-1,
            producer_epoch=-1,
        )
        return self._is_now(answer.producer_id, answer.producer_epoch)

    def write(self, topic: str, partitions: Iterable[int], *texts: str) -> None:
        """Write the same records to some partitions of a topic."""
        for partition in partitions:
            self._add(topic, partition)
            self._refused_by(self.produced(topic, partition, *texts))

    def produced(self, topic: str, partition: int, *texts: str) -> Any:
        """Send one batch, and return the answer, whatever it says."""
        key, version = ApiKey.PRODUCE, self._versions[ApiKey.PRODUCE]
        batch = build_batch(
            [(None, text.encode()) for text in texts],
            timestamp_ms=int(time.time() * 1000),
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self._sequences[topic, partition],
        )
        data = entity(key, version, "PartitionProduceData", index=partition, records=batch)
        written = entity(key, version, "TopicProduceData", name=topic, partition_data=(data,))
        answer = self.broker.until_done(
            key,
            version,
            transactional_id=self._id,
            acks=-1,
            timeout=dt.timedelta(seconds=LONG_S),
            topic_data=(written,),
        )
        if not errors_of(answer):
            self._sequences[topic, partition] += len(texts)
        return answer

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 with the transaction."""
        self.broker.find_coordinator(CoordinatorType.GROUP, group)
        if ApiKey.ADD_OFFSETS_TO_TXN in self._versions:
            self._done(ApiKey.ADD_OFFSETS_TO_TXN, **self._producer(), group_id=group)
        key, version = ApiKey.TXN_OFFSET_COMMIT, self._versions[ApiKey.TXN_OFFSET_COMMIT]
        partition = entity(
            key,
            version,
            "TxnOffsetCommitRequestPartition",
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata="",
        )
        committed = entity(
            key, version, "TxnOffsetCommitRequestTopic", name=topic, partitions=(partition,)
        )
        self._done(
            key,
            **self._producer(),
            group_id=group,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=(committed,),
        )

    def end(self, *, commit: bool) -> None:
        """Commit or abort; after that, the producer goes on as the answer says."""
        self._refused_by(self.ended(commit=commit))

    def ended(self, *, commit: bool) -> Any:
        """Ask for the end once, as `end`, and return the answer, whatever it says."""
        key, version = ApiKey.END_TXN, self._versions[ApiKey.END_TXN]
        answer = self.broker.until_done(
            key, version, transactional_id=self._id, **self._producer(), committed=commit
        )
        if hasattr(answer, "producer_epoch") and not errors_of(answer):
            self._is_now(answer.producer_id, answer.producer_epoch)
        return answer

    def _add(self, topic: str, partition: int) -> None:
        if ApiKey.ADD_PARTITIONS_TO_TXN not in self._versions:
            return
        key, version = ApiKey.ADD_PARTITIONS_TO_TXN, self._versions[ApiKey.ADD_PARTITIONS_TO_TXN]
        topics = (
            entity(key, version, "AddPartitionsToTxnTopic", name=topic, partitions=(partition,)),
        )
        answer = self.broker.until_done(
            key,
            version,
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=topics,
        )
        self._refused_by(answer)

    def _producer(self) -> dict[str, int]:
        return {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}

    def _done(self, key: ApiKey, **fields: Any) -> Any:
        answer = self.broker.until_done(
            key, self._versions[key], transactional_id=self._id, **fields
        )
        self._refused_by(answer)
        return answer

    @staticmethod
    def _refused_by(answer: Any) -> None:
        assert not errors_of(answer), answer

    def _is_now(self, producer_id: int, producer_epoch: int) -> Self:
        if (producer_id, producer_epoch) != (self.producer_id, self.producer_epoch):
            self._sequences.clear()
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        return self
