"""Whoever knows Kafka's tools finds their options here."""

from __future__ import annotations

import re

import pytest

from admin_tool import (
    configs,
    console_consumer,
    console_producer,
    consumer_groups,
    get_offsets,
)
from admin_tool.options import Option
from tests.kafka.tools import (
    CONFIGS,
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    GROUPS,
    OFFSETS,
    KafkaTools,
)

LEFT_OUT = {
    # Controllers have no listener for clients.
    (CONFIGS, "bootstrap-controller"),
    # A word in the place of a name; see its help.
    (CONFIGS, "entity-default"),
    # For Kafka's system tests.
    (CONSOLE_CONSUMER, "enable-systest-events"),
}


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("options", "tool"),
    [
        (consumer_groups.OPTIONS, GROUPS),
        (configs.OPTIONS, CONFIGS),
        (console_consumer.OPTIONS, CONSOLE_CONSUMER),
        (console_producer.OPTIONS, CONSOLE_PRODUCER),
        (get_offsets.OPTIONS, OFFSETS),
    ],
)
def test_every_option_of_kafkas_tool_is_one_of_ours(
    options: tuple[Option, ...], tool: str, kafka_tools: KafkaTools
) -> None:
    printed = kafka_tools.run(tool, "--help")
    theirs = set(re.findall(r"^--([a-z][a-z.-]*)", printed.out + printed.err, re.MULTILINE))
    assert len(theirs) > 5, printed
    missing = theirs - {option.name for option in options}
    assert missing == {name for at, name in LEFT_OUT if at == tool}
