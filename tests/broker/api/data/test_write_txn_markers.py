from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from broker.produce.marker_appends import TransactionMarker
from broker.replica.waiting.append_entries import AppendResult
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

WRITE_TXN_MARKERS = 27
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def request(version: int) -> Any:
    kio = import_module(f"kio.schema.write_txn_markers.v{version}.request")

    def marker(producer_id: int, committed: bool, **topics: tuple[int, ...]) -> Any:
        return kio.WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=3,
            transaction_result=committed,
            coordinator_epoch=9,
            topics=tuple(
                kio.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ),
            **({"transaction_version": 2} if version >= 2 else {}),
        )

    return kio.WriteTxnMarkersRequest(
        markers=(marker(7, True, t=(0, 1), u=(0,)), marker(8, False, t=(1,)))
    )


@pytest.mark.parametrize("version", [1, 2])
async def test_each_partition_of_each_marker_has_its_result(
    cluster: Any, client: Any, version: int
) -> None:
    codes = iter((0, 6, 52, 47))
    cluster.replicas.results["write_markers"] = [
        AppendResult(topic_partition=each, error_code=ErrorCode(next(codes)))
        for each in (T0, T1, U0, T1)
    ]

    answer = await client.call(WRITE_TXN_MARKERS, version, request(version))

    assert [
        (
            each.producer_id,
            [
                (topic.name, p.partition_index, int(p.error_code))
                for topic in each.topics
                for p in topic.partitions
            ],
        )
        for each in answer.markers
    ] == [(7, [("t", 0, 0), ("t", 1, 6), ("u", 0, 52)]), (8, [("t", 1, 47)])]
    ((_, markers),) = cluster.replicas.calls
    assert markers == [
        TransactionMarker(
            producer_id=producer_id,
            producer_epoch=3,
            is_committed=committed,
            coordinator_epoch=9,
            transaction_version=2 if version == 2 else 0,
            partitions=partitions,
        )
        for producer_id, committed, partitions in ((7, True, (T0, T1, U0)), (8, False, (T1,)))
    ]
