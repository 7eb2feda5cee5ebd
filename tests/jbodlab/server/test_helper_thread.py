from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from jbodlab.runtime.machine import system_environment
from jbodlab.server.helper_thread import HelperThread

DEADLINE_S = 10.0


async def test_functions_run_one_after_the_other_on_one_thread() -> None:
    thread, ran = HelperThread(system_environment().threads, "helper"), []

    def work(number: int) -> int:
        ran.append((number, threading.get_ident()))
        return number * 2

    results = await asyncio.gather(*(thread.run(partial(work, n)) for n in range(5)))

    assert results == [0, 2, 4, 6, 8]
    assert [number for number, _ in ran] == list(range(5))
    (on,) = {ident for _, ident in ran}
    assert on != threading.get_ident()
    thread.close()


async def test_what_a_function_raises_is_raised_where_its_result_is_awaited() -> None:
    thread = HelperThread(system_environment().threads, "helper")

    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)

    assert await thread.run(lambda: 1) == 1
    thread.close()


async def test_who_waits_no_longer_does_not_disturb_the_next() -> None:
    thread = HelperThread(system_environment().threads, "helper")
    goes_on = threading.Event()
    first = asyncio.create_task(thread.run(lambda: goes_on.wait(DEADLINE_S)))
    await asyncio.sleep(0)
    first.cancel()
    goes_on.set()

    assert await thread.run(lambda: 1) == 1
    thread.close()
