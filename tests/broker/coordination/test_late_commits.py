"""Records that are not replicated within the commit timeout, on the loop that brokers run on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop
from msgspec.structs import replace

from broker.coordination.shard import ShardState
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.vocabulary.error_code import ErrorCode
from tests.broker.coordination import led_topic
from tests.broker.coordination.counters import TOPIC, Add, Led, Service, new_service
from tests.broker.coordination.led_topic import LedTopic, code
from tests.broker.replicas import Host
from tests.waiting import runner_on

# Its `call_at` returns a handle of another class where the time is over.
runner = runner_on(uvloop.new_event_loop)

SHORT_MS, LONG_MS = 20, 60_000


@pytest.fixture
def timeout_ms() -> list[int]:
    """The commit timeout: the last one counts."""
    return [SHORT_MS]


@pytest.fixture
async def led(tmp_path: Path, timeout_ms: list[int]) -> AsyncIterator[Led]:
    def new(host: Host, cache: MetadataCache, wall_ms: Callable[[], int]) -> Service:
        service = new_service(host, cache, wall_ms)
        service._context = replace(service._context, commit_timeout_ms=lambda: timeout_ms[-1])
        return service

    async with led_topic.leading(LedTopic(tmp_path, TOPIC, new)) as led:
        yield led


async def late(led: Led) -> set[ErrorCode]:
    """Answers to two requests of one turn about records that nobody replicates."""
    told = [led.submit("a", Add()), led.submit("a", Add())]
    await asyncio.wait(told, timeout=led_topic.DEADLINE_S)
    return set(map(code, told))


async def test_each_request_is_told_in_time_and_what_it_wrote_stays(
    led: Led, timeout_ms: list[int]
) -> None:
    for _ in range(3):
        assert await late(led) == {ErrorCode.REQUEST_TIMED_OUT}
        assert led.state is ShardState.ACTIVE, "it goes on, and is not loaded anew"

    timeout_ms.append(LONG_MS)
    told = led.submit("a", Add())
    await led.replicate()

    assert await told == 7


async def test_a_request_is_told_in_time_behind_one_that_was_told_too_late(led: Led) -> None:
    await late(led)
    await led.replicate()

    assert await late(led) == {ErrorCode.REQUEST_TIMED_OUT}
    assert led.state is ShardState.ACTIVE
