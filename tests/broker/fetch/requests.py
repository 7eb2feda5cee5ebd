"""Builders of fetches: a consumer wants the first partition and does not wait, unless told so."""

from __future__ import annotations

from typing import Any

from broker.fetch.fetch_requests import FetchEntry, FetchParams
from jbodlab.vocabulary.ids import BrokerId, TopicPartition
from tests.broker.replicas import TOPIC_ID, TP


def fetch_params(replica_id: int = -1, **fields: Any) -> FetchParams:
    defaults = {"replica_epoch": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
    return FetchParams(replica_id=BrokerId(replica_id), **(defaults | fields))


def fetch_entry(offset: int = 0, partition: TopicPartition = TP, **fields: Any) -> FetchEntry:
    defaults = {"topic_id": TOPIC_ID, "partition_max_bytes": 1 << 20}
    return FetchEntry(topic_partition=partition, fetch_offset=offset, **(defaults | fields))
