from __future__ import annotations

from jbodlab.server.request_memory import RequestMemory
from tests.waiting import turns


def test_memory_is_full_at_its_limit_and_never_without_one() -> None:
    limited, unlimited = RequestMemory(10), RequestMemory()

    limited.take(9)
    unlimited.take(1 << 40)
    assert not limited.is_full
    assert not unlimited.is_full

    limited.take(5)
    assert limited.is_full


async def test_who_waits_is_let_in_in_order_as_long_as_there_is_room() -> None:
    memory, called = RequestMemory(10), []

    def enter(name: str) -> None:
        called.append(name)
        memory.take(6)

    memory.take(20)
    for name in "abc":
        memory.when_room(lambda name=name: enter(name))  # type: ignore[misc]
    memory.give_back(10)
    await turns()
    assert called == []

    memory.give_back(10)
    await turns()
    assert called == ["a", "b"]

    memory.give_back(6)
    await turns()
    assert called == ["a", "b", "c"]


async def test_who_waits_no_longer_is_not_called() -> None:
    memory, called = RequestMemory(1), []
    memory.take(1)

    def callback() -> None:
        called.append(1)

    memory.when_room(callback)
    memory.wait_no_longer(callback)
    memory.give_back(1)
    await turns()

    assert called == []


def test_bytes_count_when_they_come_and_when_they_are_free_again() -> None:
    memory = RequestMemory()

    memory.take(20)
    assert memory.moved_bytes == 20
    memory.give_back(15)

    assert memory.moved_bytes == 35
