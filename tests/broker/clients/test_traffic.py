from __future__ import annotations

from broker.clients.traffic import TOPICS_MAX, TopicCount, Traffic
from jbodlab.vocabulary.error_code import ErrorCode


def test_a_topic_is_counted_for_itself_and_with_all() -> None:
    traffic = Traffic(lambda: 0.0)
    traffic.produced("a", 100, 5)
    traffic.produced("b", 10, 1)
    traffic.replicated("b", 7)
    traffic.fetched("a", 40, by_follower=True)
    traffic.fetched("a", 30, by_follower=False)
    traffic.produce_failed("a", ErrorCode.NOT_ENOUGH_REPLICAS)
    counts = dict(traffic.topics())
    assert counts["a"][TopicCount.BYTES_IN] == 100
    assert traffic.total[TopicCount.BYTES_IN] == 110
    assert traffic.total[TopicCount.MESSAGES_IN] == 6
    assert counts["b"][TopicCount.REPLICATION_BYTES_IN] == 7
    assert traffic.total[TopicCount.BYTES_OUT] == 30
    assert traffic.total[TopicCount.REPLICATION_BYTES_OUT] == 40
    assert counts["a"][TopicCount.TOTAL_PRODUCE_REQUESTS] == 2
    assert counts["a"][TopicCount.FAILED_PRODUCE_REQUESTS] == 1


def test_names_that_clients_make_up_are_not_remembered() -> None:
    traffic = Traffic(lambda: 0.0)
    traffic.fetch_failed("made-up", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert not dict(traffic.topics())
    assert traffic.total[TopicCount.FAILED_FETCH_REQUESTS] == 1


def test_of_too_many_topics_the_later_ones_count_with_all_only() -> None:
    traffic = Traffic(lambda: 0.0)
    for number in range(TOPICS_MAX + 1):
        traffic.produced(f"topic-{number}", 1, 1)
    assert len(dict(traffic.topics())) == TOPICS_MAX
    assert traffic.total[TopicCount.BYTES_IN] == TOPICS_MAX + 1
    traffic.keep({"topic-7"})
    assert [topic for topic, _ in traffic.topics()] == ["topic-7"]
