from __future__ import annotations

import pytest

from controller.decide.config_checks import check_topic_configs, effective_configs
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError


def test_of_a_name_given_twice_the_last_value_counts() -> None:
    assert check_topic_configs([("retention.ms", "1"), ("retention.ms", "2")]) == {
        "retention.ms": "2"
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "shred"),
        ("compression.type", "lzma"),
        ("compression.gzip.level", "0"),
        ("message.timestamp.type", "now"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("preallocate", "maybe"),
        ("retention.bytes", "-2"),
        ("segment.bytes", "1048575"),
        ("segment.bytes", "2147483648"),
        ("segment.ms", "0"),
        ("remote.storage.enable", "true"),
    ],
)
def test_values_out_of_range_are_invalid_by_name(name: str, value: str) -> None:
    with pytest.raises(KafkaError, match=name) as refused:
        check_topic_configs([(name, value)])

    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_effective_configs_come_from_topic_file_and_default_in_this_order() -> None:
    entries = effective_configs(
        {"retention.ms": "7"},
        {"log.retention.hours": "2", "log.roll.hours": "3", "min.insync.replicas": "2"},
    )

    found = {entry.name: (entry.value, entry.config_source) for entry in entries}
    assert found["retention.ms"] == ("7", 1)
    assert found["segment.ms"] == ("10800000", 4)
    assert found["min.insync.replicas"] == ("2", 4)
    assert found["cleanup.policy"] == ("delete", 5)


def test_the_strongest_synonym_counts_and_minus_one_has_no_unit() -> None:
    weak = {"log.retention.hours": "2", "log.retention.minutes": "-1"}

    found = {entry.name: entry.value for entry in effective_configs({}, weak)}
    strong = {
        entry.name: entry.value
        for entry in effective_configs({}, {**weak, "log.retention.ms": "5"})
    }

    assert (found["retention.ms"], strong["retention.ms"]) == ("-1", "5")
