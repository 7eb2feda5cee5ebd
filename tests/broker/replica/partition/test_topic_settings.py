from __future__ import annotations

from broker.replica.partition.topic_settings import (
    SettingsOfTopics,
    ThrottledReplicas,
    TopicSettings,
)
from jbodlab.config.node_config import read_values

HOUR_MS = 3_600_000


def settings(broker: dict[str, str], topic: dict[str, str]) -> TopicSettings:
    values, _ = read_values(broker)
    return SettingsOfTopics(values).of_topic(topic)


def test_topics_own_setting_wins_over_the_brokers() -> None:
    found = settings(
        {"min.insync.replicas": "2", "log.segment.bytes": "5000000", "message.max.bytes": "700"},
        {"min.insync.replicas": "3", "segment.bytes": "4000000"},
    )

    assert found.min_insync_replicas == 3
    assert found.log.segment_bytes == found.limits.segment_bytes == 4000000
    assert found.limits.max_message_bytes == 700


def test_internal_size_of_segments_goes_below_what_is_permitted() -> None:
    found = settings({}, {"segment.bytes": "4000000", "internal.segment.bytes": "300"})

    assert found.log.segment_bytes == found.limits.segment_bytes == 300


def test_finer_unit_wins_over_the_coarser() -> None:
    assert settings({}, {}).log.retention_ms == 168 * HOUR_MS
    assert settings({"log.retention.hours": "2"}, {}).log.retention_ms == 2 * HOUR_MS
    assert settings({"log.retention.minutes": "-1"}, {}).log.retention_ms == -1
    both = {"log.retention.minutes": "5", "log.retention.ms": "77"}
    assert settings(both, {}).log.retention_ms == 77


def test_compaction_and_append_time_are_recognised() -> None:
    found = settings(
        {}, {"cleanup.policy": "compact,delete", "message.timestamp.type": "LogAppendTime"}
    )

    assert found.limits.compacted
    assert found.limits.log_append_time
    assert found.log.compacts
    assert found.log.deletes
    assert found.log.min_cleanable_dirty_ratio == 0.5


def test_a_compacted_log_closes_segments_in_time_for_its_largest_lag() -> None:
    configs = {"segment.ms": "9000", "max.compaction.lag.ms": "7000", "delete.retention.ms": "5"}
    compacted = settings({}, {**configs, "cleanup.policy": "compact"}).log

    assert (compacted.segment_ms, compacted.max_compaction_lag_ms) == (7_000, 7_000)
    assert compacted.delete_retention_ms == 5
    assert settings({}, configs).log.segment_ms == 9_000


def test_setting_that_is_no_number_leaves_the_default() -> None:
    assert settings({}, {"segment.bytes": "many"}).log.segment_bytes == 1 << 30


def test_topics_with_the_same_configs_have_the_same_settings_until_the_brokers_change() -> None:
    topics = SettingsOfTopics(read_values({})[0])
    found = topics.of_topic({"min.insync.replicas": "2", "segment.ms": "5000"})

    assert topics.of_topic({"segment.ms": "5000", "min.insync.replicas": "2"}) is found
    topics.use(read_values({"message.max.bytes": "700"})[0])
    assert topics.of_topic({"segment.ms": "5000"}).limits.max_message_bytes == 700


def test_replicas_are_throttled_by_partition_and_broker_or_all() -> None:
    named = ThrottledReplicas(frozenset({(0, 1)}))
    assert [named.covers(*pair) for pair in [(0, 1), (0, 2), (1, 1)]] == [True, False, False]
    assert ThrottledReplicas(None).covers(7, 7)
    assert not ThrottledReplicas().covers(0, 1)
