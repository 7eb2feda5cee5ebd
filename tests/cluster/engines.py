"""Releases of Apache Kafka that a cluster runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cluster.engine import Engine
from lab.cluster.kafka_servers import KafkaServers
from lab.machine.kafka_jars import NoKafkaError

OLD, NEW = "3.9.1", "4.3.1"


def jars(release: str) -> list[Path]:
    """Return the jars of a release; skips where they cannot be had."""
    try:
        return KafkaServers(Engine.parse(f"kafka:{release}")).jars
    except NoKafkaError as error:
        pytest.skip(str(error))
