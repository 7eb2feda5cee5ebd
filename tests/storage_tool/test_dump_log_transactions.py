"""jbodlab storage dump --transaction-log-decoder, and Kafka's tool on the same records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.transactions.transaction import Transaction, TransactionState, to_record
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.transaction_records.records import encode
from jbodlab.vocabulary.ids import TopicPartition
from tests.kafka.tools import DUMP_LOG, KafkaTools
from tests.storage_tool.dumping import TIME_MS, dump, write

DECODER = "--transaction-log-decoder"
PARTITIONS = (TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1))


def log(folder: Path) -> Path:
    """Every state, in both versions, and a tombstone."""
    found = [
        to_record(
            "tx",
            Transaction(
                producer_id=7,
                previous_producer_id=6,
                next_producer_id=next_id,
                producer_epoch=3,
                timeout_ms=60_000,
                state=state,
                partitions=() if state is TransactionState.EMPTY else PARTITIONS,
                updated_ms=TIME_MS,
                started_ms=-1 if state is TransactionState.EMPTY else TIME_MS - 1,
                transaction_version=level,
            ),
            level,
        )
        for level in (0, 1, 2)
        for next_id in (-1, 9)
        for state in TransactionState
        if state < TransactionState.DEAD
    ]
    records = [encode(each) for each in (*found, to_record("tx", None, 2))]
    return write(folder, build_batch(records, timestamp_ms=TIME_MS))


def test_every_record_is_a_key_and_a_payload(tmp_path: Path) -> None:
    found = dump(DECODER, "--skip-record-metadata", log(tmp_path))

    lines = [line for line in found.lines if line.startswith("| ")]
    assert (found.code, len(lines)) == (0, 37)
    assert lines[-1].endswith(" payload: <DELETE>")
    key, _, payload = lines[-2].removeprefix("| key: ").partition(" payload: ")
    assert json.loads(key) == {"type": "0", "data": {"transactionalId": "tx"}}
    assert json.loads(payload) == {
        "version": "1",
        "data": {
            "producerId": 7,
            "previousProducerId": 6,
            "nextProducerId": 9,
            "producerEpoch": 3,
            "transactionTimeoutMs": 60_000,
            "transactionStatus": 5,
            "transactionPartitions": [
                {"topic": "a", "partitionIds": [0, 2]},
                {"topic": "b", "partitionIds": [1]},
            ],
            "transactionLastUpdateTimestampMs": TIME_MS,
            "transactionStartTimestampMs": TIME_MS - 1,
            "clientTransactionVersion": 2,
        },
    }


@pytest.mark.kafka
def test_lines_are_those_of_kafkas_tool(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    path = log(tmp_path)

    expected = kafka_tools.run(DUMP_LOG, DECODER, "--files", path)

    assert dump(DECODER, path).lines == expected.lines
