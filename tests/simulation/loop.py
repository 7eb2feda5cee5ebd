"""An event loop under virtual time that owns every order: of processes, timers and threads.

How to think about it: each process has a queue of its own. Inside a process callbacks run in
asyncio's order, always; which process runs next is drawn from the seed. Real processes differ in
nothing else, so no order is tried that could not happen. When no queue has work, time jumps to the
next timer.

Threads are greenlets. They run until they wait for a disk or for each other, then switch back to
the loop; what they do in between takes no time.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context, ContextVar, copy_context
from functools import partial
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any

from greenlet import getcurrent, greenlet

STEPS_PER_INSTANT_MAX = 20_000
"""Steps without time moving beyond which nothing will ever move it."""

TIMER_LATE_S = 5e-5
"""No timer fires at its very moment."""
UNTRACED_MAX = 4_096
"""Of what happened and is not yet in the trace's hash."""


class Stuck(Exception):  # noqa: N818 - what happened, as the history's end
    """Nothing can run any more, or time stands still."""


class Call:
    """Callbacks of a process: asyncio's `Handle`, and its `TimerHandle`.

    Attributes:
        context: Of the process; None for what happens outside of all, such as that bytes arrive.
        when_s: When it is due; 0 for now.
    """

    __slots__ = ("args", "callback", "context", "is_cancelled", "when_s")

    def __init__(
        self, callback: Callable[..., object], args: Any, context: Context | None, when_s: float
    ) -> None:
        self.callback, self.args, self.context, self.when_s = callback, args, context, when_s
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


class Process:
    """One life of a node: it has a queue, and when it ends nothing of it ever runs again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[Call] = deque()
        self.is_alive = True
        self.is_frozen = False

    def __repr__(self) -> str:
        return self.name


OUTSIDE = Process("world")
PROCESS: ContextVar[Process] = ContextVar("process", default=OUTSIDE)


class SimLoop(asyncio.BaseEventLoop):
    """Runs all processes of a history.

    Args:
        seed: Of the schedule.
        is_fifo: Whether the process that has waited longest is next, in place of a drawn one.

    Attributes:
        steps: Callbacks run so far.
        stop_at_step: Where the history ends at the latest; 0 for nowhere.
        ending: The reason that ends the history at the next step, if there is something.
        is_traced: Whether each callback is printed before it runs.
        kept: Coroutines that must not be collected, since its `finally` blocks would run in dead
        processes.
    """

    def __init__(self, seed: str, *, is_fifo: bool = False) -> None:
        super().__init__()
        self._draw = Random(f"{seed}:schedule").random
        self._is_fifo = is_fifo
        self._now = 1000.0
        self._active: list[Process] = []
        self._timers: list[tuple[float, int, Call]] = []
        self._timer_number = 0
        self._trace = blake2b(digest_size=16)
        self._untraced: list[str] = []
        self._moved_at_step = 0
        # One that ended in the middle has left something in it.
        former, OUTSIDE.queue = OUTSIDE.queue, deque()
        self.hub = getcurrent()
        self.steps = 0
        self.stop_at_step = 0
        self.ending: Exception | None = None
        self.is_traced = False
        self.kept: list[object] = [former]
        self.create_future = partial(asyncio.Future, loop=self)

    get_debug = staticmethod(bool)
    """It is not debugged; each future asks for that."""

    def time(self) -> float:
        return self._now

    def note(self, data: bytes) -> None:
        """Make a value part of the trace."""
        self._untraced.append(f"{zlib.crc32(data)}")

    def trace(self) -> str:
        """Return a hash of all that happened so far."""
        self._trace.update("|".join(self._untraced).encode())
        self._untraced.clear()
        return self._trace.hexdigest()

    def freeze(self, process: Process) -> None:
        """Let a process run no more until it thaws, as SIGSTOP does."""
        process.is_frozen = True
        if process in self._active:
            self._active.remove(process)

    def thaw(self, process: Process) -> None:
        """Let a process go on."""
        process.is_frozen = False
        # Data that arrived meanwhile takes a few turns from the socket to whom it is for.
        process.queue = deque(sorted(process.queue, key=lambda call: call.when_s == 0.0))
        if process.queue and process not in self._active:
            self._active.append(process)

    def kill(self, process: Process) -> None:
        """End a process; what it was about to do is kept, and never done."""
        process.is_alive = False
        self.kept.append((process, process.queue))
        process.queue = deque()
        if process in self._active:
            self._active.remove(process)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        call = Call(callback, args, copy_context() if context is None else context, 0.0)
        self._enqueue(call)
        return call

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        call = Call(callback, args, copy_context() if context is None else context, when)
        self._timer_number += 1
        heappush(self._timers, (when, self._timer_number, call))
        return call

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def happen_at(self, when: float, what: Callable[..., object], *args: Any) -> None:
        """Let something happen outside of all processes, such as that bytes arrive."""
        self._timer_number += 1
        heappush(self._timers, (when, self._timer_number, Call(what, args, None, when)))

    def run_in_executor(self, *_: object) -> Any:
        raise AssertionError("threads come from `SimThreads`")

    def _enqueue(self, call: Call) -> None:
        process = call.context.get(PROCESS, OUTSIDE)
        if not process.is_alive:
            self.kept.append(call)
            return
        if not process.queue and not process.is_frozen:
            self._active.append(process)
        process.queue.append(call)

    def _run_once(self) -> None:
        active, timers = self._active, self._timers
        while not self._stopping:
            if not active:
                self._move_time()
            while timers and timers[0][0] <= self._now:
                call = heappop(timers)[2]
                if call.context is None:
                    call.callback(*call.args)
                elif not call.is_cancelled:
                    self._enqueue(call)
            if not active:
                continue
            index = 0 if len(active) == 1 or self._is_fifo else int(self._draw() * len(active))
            process = active[index]
            call = process.queue.popleft()
            if self._is_fifo or not process.queue:
                del active[index]
                if process.queue:
                    active.append(process)
            if not call.is_cancelled:
                self._step(process, call)

    def _move_time(self) -> None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heappop(timers)
        if not timers:
            raise Stuck("nothing can ever run again")
        self._now = max(self._now, timers[0][0]) + self._draw() * TIMER_LATE_S
        self._moved_at_step = self.steps
        self._untraced.append(f"{self._now!r}")
        if len(self._untraced) > UNTRACED_MAX:
            self.trace()

    def _step(self, process: Process, call: Call) -> None:
        self.steps += 1
        callback = call.callback
        name = getattr(callback, "__qualname__", None) or type(callback).__name__
        self._untraced += (process.name, name)
        if self.is_traced:
            print(f"{self.steps:7d} {self._now - 1000:11.6f} {process.name:12s} {name}")
        if self.ending is not None:
            raise self.ending
        if self.steps == self.stop_at_step:
            raise Stuck(f"step {self.steps} was reached")
        if self.steps - self._moved_at_step > STEPS_PER_INSTANT_MAX:
            raise Stuck(f"time has stood still for {STEPS_PER_INSTANT_MAX} steps")
        try:
            call.context.run(callback, *call.args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio does with a callback's
            self.call_exception_handler({"message": f"exception in {name}", "exception": error})


class SimThreads:
    """`jbodlab.vocabulary.threads.Threads` of one process."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.queue = partial(SimQueue, loop)
        self.flag = partial(SimFlag, loop)

    def start(self, work: Callable[[], None], name: str) -> None:
        thread = greenlet(work, parent=self._loop.hub)
        thread.gr_context = copy_context()
        self._loop.kept.append(thread)
        self._loop.call_soon(thread.switch)

    def lock(self) -> nullcontext[None]:
        # Nobody waits while he holds one: a greenlet ends what it does with it before it switches.
        return nullcontext()

    def lower_priority(self) -> None:
        """All threads are equal."""


class Waiters:
    """Greenlets that wait for the same thing."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[greenlet, Context]] = deque()

    def rest(self, timeout: float | None = None) -> None:
        """Let others run until woken, or for so many seconds."""
        me = (getcurrent(), copy_context())
        assert me[0] is not self._loop.hub, "the event loop itself waits"
        self._waiting.append(me)
        timer = None if timeout is None else self._loop.call_later(timeout, self._wake, me)
        self._loop.hub.switch()
        if timer is not None:
            timer.cancel()

    def wake_one(self) -> None:
        if self._waiting:
            waiter, context = self._waiting.popleft()
            self._loop.call_soon(waiter.switch, context=context)

    def wake_all(self) -> None:
        while self._waiting:
            self.wake_one()

    def _wake(self, who: tuple[greenlet, Context]) -> None:
        if who in self._waiting:
            self._waiting.remove(who)
            who[0].switch()


def pause(loop: SimLoop, seconds: float) -> None:
    """Let others run while this greenlet is in a call that takes time."""
    me = getcurrent()
    assert me is not loop.hub, "the event loop itself waits"
    loop.call_later(seconds, me.switch)
    loop.hub.switch()


class SimQueue(Waiters):
    """`jbodlab.vocabulary.threads.CallQueue`."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__(loop)
        self._items: deque[Any] = deque()

    def put(self, item: Any, /) -> None:
        self._items.append(item)
        self.wake_one()

    def get(self) -> Any:
        while not self._items:
            self.rest()
        return self._items.popleft()


class SimFlag(Waiters):
    """`jbodlab.vocabulary.threads.Flag`."""

    _is_set = False

    def set(self) -> None:
        self._is_set = True
        self.wake_all()

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float, /) -> bool:
        if not self._is_set:
            self.rest(timeout)
        return self._is_set
