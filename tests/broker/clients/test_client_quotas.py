from __future__ import annotations

import asyncio

from broker.clients.client_quotas import THROTTLE_MAX_MS, ClientQuotas
from jbodlab.metadata.client_quota import PRODUCER_RATE, REQUEST_PERCENTAGE
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.server.session import Session
from tests.waiting import AdjustableLoop, runner_on, set_forward

EACH_CLIENT = frozenset({("client-id", None)})
NEARLY_MS = 40
"""The test's own time, which fills accounts as well."""


runner = runner_on(AdjustableLoop)


def limited(**limits: float) -> ClientQuotas:
    quotas: Quotas = {EACH_CLIENT: limits}
    return ClientQuotas(lambda: quotas)


class Client:
    """A connection, and what was taken for it."""

    def __init__(self, quotas: ClientQuotas, name: str | None = "c") -> None:
        self.quotas = quotas
        self.name = name
        self.session = Session(listener_name="CLIENTS", peer="")

    def takes(self, amount: float, key: str = PRODUCER_RATE) -> int:
        return self.quotas.throttle(key, self.name, self.session, amount)

    @property
    def muted_ms(self) -> int:
        left_s = self.session.muted_until_s - asyncio.get_running_loop().time()
        return max(0, round(left_s * 1_000))


def nearly(told_ms: int, expected_ms: int) -> bool:
    return expected_ms - NEARLY_MS <= told_ms <= expected_ms


async def test_what_goes_beyond_a_second_is_waited_for_and_mutes_the_connection() -> None:
    client = Client(limited(producer_byte_rate=1_000.0))
    assert client.takes(1_000) == 0
    assert not client.muted_ms
    assert nearly(client.takes(500), 500)
    assert nearly(client.muted_ms, 500)
    set_forward(0.5)
    assert nearly(client.takes(100), 100)


async def test_unused_rate_is_kept_for_a_second() -> None:
    client = Client(limited(producer_byte_rate=1_000.0))
    assert client.takes(1_000) == 0
    set_forward(60)
    assert client.takes(1_000) == 0
    assert nearly(client.takes(1_000), 1_000)


async def test_clients_have_accounts_of_their_own_and_one_without_a_name_too() -> None:
    quotas = limited(producer_byte_rate=1_000.0)
    assert nearly(Client(quotas, "a").takes(2_000), 1_000)
    assert Client(quotas, "b").takes(1_000) == 0
    assert Client(quotas, None).takes(1_000) == 0
    # Another connection of the first.
    assert nearly(Client(quotas, "a").takes(0), 1_000)


async def test_a_client_is_told_no_more_than_ten_seconds_at_once() -> None:
    client = Client(limited(producer_byte_rate=1_000.0))
    assert client.takes(1_000_000) == THROTTLE_MAX_MS
    set_forward(10)
    assert client.takes(0) == THROTTLE_MAX_MS


async def test_a_percentage_is_of_the_time_of_the_event_loop() -> None:
    client = Client(limited(request_percentage=10.0))
    assert client.takes(0.1, REQUEST_PERCENTAGE) == 0
    assert nearly(client.takes(0.05, REQUEST_PERCENTAGE), 500)
    assert client.takes(10**9) == 0


async def test_changed_quotas_count_at_once() -> None:
    now: list[Quotas] = [{EACH_CLIENT: {"producer_byte_rate": 1_000.0}}]
    client = Client(ClientQuotas(lambda: now[-1]))
    assert client.takes(100_000) == THROTTLE_MAX_MS
    now.append({EACH_CLIENT: {"producer_byte_rate": 10_000.0}})
    assert client.takes(5_000) == 0
    now.append({})
    assert client.takes(10**9) == 0
