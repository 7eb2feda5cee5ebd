"""The smallest coordinator: counters by name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

import msgspec

from broker.coordination import core
from broker.coordination.coordinator_service import CoordinatorService
from broker.coordination.core import Answer, Ticket, Timer
from broker.coordination.shard import ShardContext
from broker.metadata.metadata_cache import MetadataCache
from jbodlab.runtime.machine import system_environment
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.producer import Producer
from tests.broker.coordination.led_topic import LedTopic
from tests.broker.replicas import Host

TOPIC = "__counters"
PATIENCE_MS = 1000


class Count(NamedTuple):
    """A record: the value of a counter."""

    name: str
    value: int


class Add(msgspec.Struct, frozen=True, kw_only=True):
    """The operation: add, and be told the value once it is at least `at_least`."""

    name: str = "a"
    amount: int = 1
    at_least: int = 0
    producer: Producer | None = None


class Decision(core.Decision[Count], frozen=True, kw_only=True):
    """Counts to write, and the parked requests from then on."""

    parked: Mapping[Ticket, Add] | None = None


class Counters:
    """The state machine of one partition."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.open: dict[tuple[int, str], int] = {}
        self.parked: Mapping[Ticket, Add] = {}

    def decide(self, request: Add, ticket: Ticket, now_ms: int) -> Decision:
        value = self.values.get(request.name, 0) + request.amount
        parked = {**self.parked, ticket: request}
        met = [t for t, a in parked.items() if a.name == request.name and a.at_least <= value]
        return Decision(
            records=(Count(request.name, value),) if request.amount else (),
            producer=request.producer,
            answers=tuple(Answer(each, value) for each in met),
            timers=tuple(
                Timer((each,), None if each in met else now_ms + PATIENCE_MS)
                for each in {*met, ticket}
            ),
            parked={each: parked[each] for each in parked if each not in met},
        )

    def apply(self, decision: Decision, base_offset: int = -1) -> None:
        for record in decision.records:
            producer = decision.producer
            self.replay(record, base_offset, -1, None if producer is None else producer.producer_id)
        if decision.parked is not None:
            self.parked = decision.parked

    def replay_bytes(self, key: bytes, value: bytes | None) -> bool:
        return False

    def replay(
        self, record: Count, offset: int, end_offset: int, producer_id: int | None = None
    ) -> None:
        if producer_id is None:
            self.values[record.name] = record.value
        else:
            self.open[producer_id, record.name] = record.value

    def end_transaction(self, producer: Producer, commit: bool, end_offset: int) -> None:
        for producer_id, name in [key for key in self.open if key[0] == producer.producer_id]:
            value = self.open.pop((producer_id, name))
            if commit:
                self.values[name] = value

    def timer(self, key: tuple[Hashable, ...], now_ms: int) -> Decision:
        error = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        answers = tuple(Answer(each, error) for each in self.parked if key == (each,))
        parked = {each: add for each, add in self.parked.items() if key != (each,)}
        return Decision(answers=answers, parked=parked)

    def connection_closed(self, ticket: Ticket, now_ms: int) -> Decision:
        # Nobody hears the answer; what the ticket names ends with it.
        return self.timer((ticket,), now_ms)

    def committed_up_to(self, offset: int) -> None:
        """Nobody reads without writing."""

    def loaded(self, now_ms: int) -> Decision:
        return Decision()

    def committed(self, event: object, now_ms: int) -> Decision:
        raise AssertionError(event)

    def refused(self, event: object, error: KafkaError, now_ms: int) -> Decision:
        raise AssertionError(event)

    def worked(self, event: object, result: object, now_ms: int) -> Decision:
        raise AssertionError(event)


class Codec:
    """The format of a record."""

    def encode(self, record: Count, /) -> tuple[bytes, bytes | None]:
        return record.name.encode(), b"%d" % record.value

    def decode(self, key: bytes, value: bytes | None, /) -> Count:
        assert value is not None
        return Count(key.decode(), int(value))


Service = CoordinatorService[Counters, Count]
Led = LedTopic[Service]


def new_service(host: Host, cache: MetadataCache, wall_ms: Callable[[], int]) -> Service:
    context = ShardContext(
        new_core=Counters,
        codec=Codec(),
        append_errors={ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE},
        wall_ms=wall_ms,
        commit_timeout_ms=lambda: 5000,
        threads=system_environment().threads,
    )
    return Service(TOPIC, host.registry, cache, context)


async def value(led: Led, name: str = "a") -> int:
    """The value of a counter, as a request is told."""
    told = led.submit(name, Add(name=name, amount=0))
    await led.replicate()
    return int(await told)
