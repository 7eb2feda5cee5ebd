from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.clients.client_behaviour import BEHAVIOURS, ClientBehaviour

ROOT = Path(__file__).resolve().parents[3]
PAGE = "broker/clients/client_behaviour.py"
LIBRARIES = re.compile(
    r"librdkafka|sarama|aiokafka|kafka-python|kafkajs|franz-go|Java's client", re.IGNORECASE
)
SERVERS = ("broker", "controller", "jbodlab/server", "jbodlab/kafka_wire")


@pytest.mark.parametrize("row", BEHAVIOURS, ids=lambda row: f"{row.client}: {row.module}")
def test_each_behaviour_has_a_module_that_refers_to_the_page_and_a_test(
    row: ClientBehaviour,
) -> None:
    path, _, name = row.test.partition("::")

    assert "client_behaviour" in (ROOT / row.module).read_text("utf-8")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_no_other_page_of_the_servers_names_a_client_library() -> None:
    named = [
        f"{name}:{number}"
        for folder in SERVERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (name := path.relative_to(ROOT).as_posix()) != PAGE
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if LIBRARIES.search(line)
    ]

    assert not named
