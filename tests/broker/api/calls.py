"""Requests of clients, as their test files and others send them."""

from __future__ import annotations

import datetime
from importlib import import_module
from typing import Any
from uuid import UUID

from broker.fetch.fetch_requests import FetchResult
from jbodlab.record_batch.record_batch import HEADER_SIZE, build_batch
from jbodlab.vocabulary.ids import TopicPartition


def metadata(
    version: int,
    *topics: str | UUID,
    all_topics: bool = False,
    name_beside_id: str | None = None,
    **values: Any,
) -> Any:
    kio = import_module(f"kio.schema.metadata.v{version}.request")
    if version >= 4:
        values.setdefault("allow_auto_topic_creation", False)
    if version >= 8:
        values.setdefault("include_topic_authorized_operations", False)
    if 8 <= version <= 10:
        values.setdefault("include_cluster_authorized_operations", False)
    wanted = []
    for topic in topics:
        named = (
            {"name": topic}
            if isinstance(topic, str)
            else {
                "name": name_beside_id,
                "topic_id": topic,
            }
        )
        if version >= 10:
            named.setdefault("topic_id", None)
        wanted.append(kio.MetadataRequestTopic(**named))
    return kio.MetadataRequest(topics=None if all_topics else tuple(wanted), **values)


def fetch(version: int, *topics: tuple[Any, list[int]], **values: Any) -> Any:
    kio = import_module(f"kio.schema.fetch.v{version}.request")
    named = "topic_id" if version >= 13 else "topic"
    optional = {"forgotten_topics_data": ()} if version >= 7 else {}
    if version < 15:
        optional["replica_id"] = values.pop("replica_id", -1)
    return kio.FetchRequest(
        max_wait=datetime.timedelta(milliseconds=250),
        min_bytes=1,
        max_bytes=1 << 20,
        topics=tuple(
            kio.FetchTopic(
                **{named: topic},
                partitions=tuple(
                    kio.FetchPartition(
                        partition=index, fetch_offset=10 + index, partition_max_bytes=1000
                    )
                    for index in indexes
                ),
            )
            for topic, indexes in topics
        ),
        **optional,
        **values,
    )


def result(partition: TopicPartition, *records: bytes, **values: Any) -> FetchResult:
    return FetchResult(
        topic_partition=partition,
        topic_id=None,
        high_watermark=20,
        last_stable_offset=20,
        log_start_offset=1,
        records=records,
        records_size=sum(map(len, records)),
        **values,
    )


BATCH = b"batch 0".ljust(HEADER_SIZE, b"\0")


def produce(
    version: int = 12, acks: int = -1, transactional_id: str | None = None, records: bytes = BATCH
) -> Any:
    kio = import_module(f"kio.schema.produce.v{version}.request")
    return kio.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=datetime.timedelta(milliseconds=1500),
        topic_data=(
            kio.TopicProduceData(
                name="t",
                partition_data=(
                    kio.PartitionProduceData(index=0, records=records),
                    kio.PartitionProduceData(index=1, records=None),
                ),
            ),
        ),
    )


def batch(value: bytes = b"v", attributes: int = 0) -> bytes:
    return build_batch([(None, value)], timestamp_ms=0, attributes=attributes)


def produce_to(
    *batches: tuple[TopicPartition, bytes],
    acks: int = -1,
    timeout_ms: int = 1_500,
    version: int = 12,
    transactional_id: str | None = None,
) -> Any:
    kio = import_module(f"kio.schema.produce.v{version}.request")
    return kio.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            kio.TopicProduceData(
                name=name,
                partition_data=(kio.PartitionProduceData(index=index, records=records),),
            )
            for (name, index), records in batches
        ),
    )
