"""Counts of a broker's traffic: requests, and the records of each topic.

Everything is counted on the event loop.

Source: `org.apache.kafka.storage.log.metrics.BrokerTopicMetrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator
from enum import StrEnum

from jbodlab.runtime.metrics import NO_LABELS, Metric, rows
from jbodlab.server.request_counts import RequestCounts, request_metrics
from jbodlab.vocabulary.error_code import ErrorCode

TOPICS_MAX = 1_000
"""Topics that are counted one by one; those that come later count with all others only."""


class TopicCount(StrEnum):
    """Counts of each topic, under Kafka's names without their `PerSec`."""

    BYTES_IN = "BytesIn"
    BYTES_OUT = "BytesOut"
    MESSAGES_IN = "MessagesIn"
    REPLICATION_BYTES_IN = "ReplicationBytesIn"
    REPLICATION_BYTES_OUT = "ReplicationBytesOut"
    TOTAL_PRODUCE_REQUESTS = "TotalProduceRequests"
    TOTAL_FETCH_REQUESTS = "TotalFetchRequests"
    FAILED_PRODUCE_REQUESTS = "FailedProduceRequests"
    FAILED_FETCH_REQUESTS = "FailedFetchRequests"


class Traffic(RequestCounts):
    """The counts of one broker since its start: of requests, and of the records of each topic.

    Args:
        now_s: Clock that never goes back.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        super().__init__(now_s)
        self._topics: dict[str, Counter[TopicCount]] = {}
        self._others: Counter[TopicCount] = Counter()
        """Of topics that are not counted one by one, and of those that are gone."""

    @property
    def total(self) -> Counter[TopicCount]:
        """Counts of all topics together."""
        total = Counter(self._others)
        for counts in self._topics.values():
            total.update(counts)
        return total

    def topics(self) -> Iterator[tuple[str, Counter[TopicCount]]]:
        """Yield the topics that are counted one by one."""
        return iter(self._topics.items())

    def keep(self, topics: Container[str]) -> None:
        """Count no more what is not among the topics that there are."""
        for topic in [topic for topic in self._topics if topic not in topics]:
            self._others.update(self._topics.pop(topic))

    def produced(self, topic: str, size_bytes: int, messages: int) -> None:
        """A batch was appended."""
        counts = self._topics.get(topic)
        if counts is None:
            counts = self._counts(topic)
        counts[TopicCount.TOTAL_PRODUCE_REQUESTS] += 1
        counts[TopicCount.BYTES_IN] += size_bytes
        counts[TopicCount.MESSAGES_IN] += messages

    def produce_failed(self, topic: str, error: ErrorCode) -> None:
        """A batch was refused."""
        counts = self._counts(topic, error)
        counts[TopicCount.TOTAL_PRODUCE_REQUESTS] += 1
        counts[TopicCount.FAILED_PRODUCE_REQUESTS] += 1

    def replicated(self, topic: str, size_bytes: int) -> None:
        """A follower has appended what its leader sent."""
        if size_bytes:
            self._counts(topic)[TopicCount.REPLICATION_BYTES_IN] += size_bytes

    def fetched(self, topic: str, size_bytes: int, *, by_follower: bool) -> None:
        """A partition was read."""
        out = TopicCount.REPLICATION_BYTES_OUT if by_follower else TopicCount.BYTES_OUT
        counts = self._topics.get(topic)
        if counts is None:
            counts = self._counts(topic)
        counts[TopicCount.TOTAL_FETCH_REQUESTS] += 1
        counts[out] += size_bytes

    def fetch_failed(self, topic: str, error: ErrorCode) -> None:
        """A partition could not be read."""
        counts = self._counts(topic, error)
        counts[TopicCount.TOTAL_FETCH_REQUESTS] += 1
        counts[TopicCount.FAILED_FETCH_REQUESTS] += 1

    def _counts(self, topic: str, error: ErrorCode = ErrorCode.NONE) -> Counter[TopicCount]:
        """Return where something of a topic is counted; no client's word makes one up."""
        counts = self._topics.get(topic)
        if counts is None:
            if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or len(self._topics) >= TOPICS_MAX:
                return self._others
            counts = self._topics[topic] = Counter()
        return counts


def traffic_metrics(traffic: Traffic, topics: Container[str]) -> Iterator[Metric]:
    """Yield the metrics of requests and topics.

    Args:
        traffic: The counts.
        topics: The topics that there are; counts of others are given up.
    """
    yield from request_metrics(traffic)
    traffic.keep(topics)
    for count in TopicCount:
        yield from rows(
            [
                (NO_LABELS, traffic.total[count]),
                *(({"topic": topic}, found[count]) for topic, found in traffic.topics()),
            ],
            {f"kafka_server_BrokerTopicMetrics_{count.value}_total": float},
        )
