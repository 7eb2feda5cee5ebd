"""Timers by whole milliseconds."""

from __future__ import annotations

import asyncio

from jbodlab.vocabulary.loop_clock import call_at_ms, loop_ms


class MillisecondLoop(asyncio.SelectorEventLoop):
    """A loop that knows whole milliseconds only, as uvloop's does."""

    def time(self) -> float:
        return int(super().time() * 1000) / 1000


def test_a_timer_finds_its_millisecond_when_it_fires() -> None:
    late: list[int] = []

    async def main() -> None:
        done = asyncio.get_running_loop().create_future()

        def fire(due_ms: int) -> None:
            late.append(loop_ms() - due_ms)
            if len(late) == 50:
                done.set_result(None)
            else:
                next_ms = loop_ms() + 1
                call_at_ms(next_ms, fire, next_ms)

        fire(loop_ms())
        await asyncio.wait_for(done, 10)

    with asyncio.Runner(loop_factory=MillisecondLoop) as runner:
        runner.run(main())
    assert min(late) >= 0


def test_every_millisecond_is_read_as_what_it_is() -> None:
    class Frozen(asyncio.SelectorEventLoop):
        now_ms = 0

        def time(self) -> float:
            return self.now_ms / 1000

    loop = Frozen()
    for now_ms in range(100_000):
        loop.now_ms = now_ms
        assert loop_ms(loop) == now_ms
    loop.close()
