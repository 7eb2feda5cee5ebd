"""Shards of groups without anything in them."""

from __future__ import annotations

import pytest

from tests.broker.groups.bench import Bench
from tests.broker.groups.consumer.rig import Rig


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def rig() -> Rig:
    return Rig()
