"""The shell with the smallest state machine: named counters with one operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.coordination import loading
from broker.coordination.log_reduction import LogReduction
from broker.coordination.shard import ShardState
from jbodlab.storage.log.transactions import ABORT, COMMIT, Marker
from jbodlab.vocabulary import large_dict
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer
from tests.broker.coordination import led_topic
from tests.broker.coordination.counters import (
    PATIENCE_MS,
    TOPIC,
    Add,
    Counters,
    Decision,
    Led,
    new_service,
    value,
)
from tests.broker.coordination.led_topic import LedTopic, code
from tests.broker.replicas import change, has_partition
from tests.waiting import set_forward, turns

P = Producer(7, 0)


@pytest.fixture
async def led(tmp_path: Path, options: dict[str, Any]) -> AsyncIterator[Led]:
    async with led_topic.leading(LedTopic(tmp_path, TOPIC, new_service), **options) as led:
        yield led


async def lead_anew(led: Led) -> None:
    """Let the other broker lead, and this one again."""
    led.metadata.apply(change(leader=2))
    assert led.state is None
    led.metadata.apply(change(leader=1))
    assert led.state is ShardState.LOADING
    assert code(led.submit("a", Add())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await led.active()


async def test_request_is_answered_when_the_high_watermark_has_passed_its_records(led: Led) -> None:
    told = led.submit("a", Add(amount=3))
    assert led.end == 1
    await turns()
    assert not told.done()

    await led.replicate()

    assert told.result() == 3


async def test_new_leadership_loads_the_state_from_the_log(led: Led) -> None:
    led.submit("a", Add(amount=3))
    led.submit("a", Add(amount=4))
    led.submit("b", Add(name="b"))
    await led.replicate()

    await lead_anew(led)

    assert (await value(led), await value(led, "b")) == (7, 1)


async def test_long_log_is_committed_slice_by_slice(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        led.submit(name, Add(name=name))
    await led.replicate()
    slices: list[tuple[int, int]] = []
    monkeypatch.setattr(loading, "LOADED_AT_ONCE", 1)
    monkeypatch.setattr(
        Counters, "committed_up_to", lambda core, end: slices.append((len(core.values), end))
    )

    await lead_anew(led)

    assert slices[:4] == [(0, 3), (1, 3), (2, 3), (3, 3)]


async def test_order_of_a_long_log_is_prepared_part_by_part(
    led: Led, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        led.submit(name, Add(name=name))
    await led.replicate()
    happened: list[str] = []
    arrange = LogReduction.arrange

    def arranged(reduction: LogReduction) -> bool:
        happened.append("arrange")
        asyncio.get_running_loop().call_soon(happened.append, "turn of others")
        return arrange(reduction)

    monkeypatch.setattr(large_dict, "UNDIVIDED_MAX", 1)
    monkeypatch.setattr(LogReduction, "arrange", arranged)

    await lead_anew(led)

    assert happened[:4] == ["arrange", "turn of others"] * 2
    assert [await value(led, name) for name in "abc"] == [1, 1, 1]


async def test_parked_request_is_answered_with_the_decision_that_names_its_ticket(led: Led) -> None:
    parked = led.submit("a", Add(at_least=3))
    await led.replicate()
    assert not parked.done()
    assert led.coordinator.waiting_count == 1

    led.submit("a", Add(amount=2))
    await led.replicate()

    assert parked.result() == 3
    set_forward(PATIENCE_MS / 1000)
    await turns()
    assert led.state is ShardState.ACTIVE, "the timer was taken away"


async def test_timer_answers_a_parked_request(led: Led) -> None:
    parked = led.submit("a", Add(at_least=3))
    await led.replicate()
    set_forward(PATIENCE_MS / 1000 - 0.1)
    await turns()
    assert not parked.done()

    set_forward(0.2)
    await turns()

    assert code(parked) is ErrorCode.REQUEST_TIMED_OUT


async def test_end_of_the_leadership_answers_parked_requests_in_the_same_turn(led: Led) -> None:
    parked = led.submit("a", Add(at_least=3))
    await led.replicate()

    led.metadata.apply(change(leader=2))

    assert code(parked) is ErrorCode.NOT_COORDINATOR
    assert code(led.submit("a", Add())) is ErrorCode.NOT_COORDINATOR


async def test_request_of_a_client_that_hung_up_is_parked_no_longer(led: Led) -> None:
    parked = led.submit("a", Add(at_least=3))
    await led.replicate()

    parked.cancel()
    await turns()

    assert led.coordinator.waiting_count == 0
    seen: list[object] = []
    led.coordinator.run(lambda counters: Decision(event=seen.append(counters.parked)))
    assert seen == [{}]


@pytest.mark.stage(isr=(1,))
async def test_refused_append_changes_nothing_and_its_error_comes_from_the_table(led: Led) -> None:
    assert code(led.submit("a", Add())) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    ended = led.coordinator.end_transaction(0, P, Marker(COMMIT, 0))
    assert code(ended) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert led.end == 0


@pytest.mark.parametrize("is_loaded_between", [False, True])
@pytest.mark.parametrize(("kind", "expected"), [(COMMIT, 5), (ABORT, 1)])
async def test_records_of_a_transaction_count_from_its_marker_on(
    led: Led, kind: int, expected: int, is_loaded_between: bool
) -> None:
    led.submit("a", Add())
    has_partition(led.partition, P)
    has_partition(led.partition, Producer(8, 0))
    led.submit("a", Add(amount=4, producer=P))
    other = led.submit("b", Add(name="b", amount=9, producer=Producer(8, 0)))
    await led.replicate()
    assert other.result() == 9
    assert led.partition.log is not None
    assert led.partition.log.producers.first_open_offset == 1
    if is_loaded_between:
        await lead_anew(led)
    assert await value(led) == 1

    ended = led.coordinator.end_transaction(0, P, Marker(kind, 3))
    await turns()
    assert not ended.done()
    await led.replicate()

    assert ended.result() is None
    entry = led.partition.log.producers.entry(P.producer_id)
    assert entry is not None
    assert entry.coordinator_epoch == 3
    assert led.partition.log.producers.first_open_offset == 2, "the other one is open"
    assert (await value(led), await value(led, "b")) == (expected, 0)
    await lead_anew(led)
    assert (await value(led), await value(led, "b")) == (expected, 0)


async def test_marker_for_a_partition_that_is_led_elsewhere_is_refused(led: Led) -> None:
    with pytest.raises(KafkaError) as caught:
        led.coordinator.end_transaction(1, P, Marker(COMMIT, 0))
    assert caught.value.code is ErrorCode.NOT_COORDINATOR
