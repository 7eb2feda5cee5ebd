"""Events in a cluster, for every browser and client that listens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from lab.ui.model import Seen
from lab.ui.published import Published
from lab.ui.watching import WatchedCluster, Watching


class Live:
    """Looks at a cluster and publishes what changes; lives on the event loop.

    Args:
        watched: Returns the cluster that is watched now.
        start: Tells this start of the server from others.
        may_break: Whether the page has buttons for faults.
        needs_token: Whether these work with the token only.

    Attributes:
        published: All that was published.
        news: Is set, and another one takes its place, whenever something was published.
    """

    def __init__(
        self,
        watched: Callable[[], WatchedCluster],
        start: str,
        *,
        may_break: bool,
        needs_token: bool,
    ) -> None:
        self.published = Published(start)
        self.news = asyncio.Event()
        self._watched = watched
        self._may_break = may_break
        self._needs_token = needs_token
        self._watching = self._made()
        self._task: asyncio.Task[None] | None = None
        self._may_look = asyncio.Event()
        self._may_look.set()
        self._loop: asyncio.AbstractEventLoop

    def seen(self) -> Seen:
        """Return the cluster as it was seen last; any thread may ask."""
        return self._watching.seen

    async def run(self) -> None:
        """Look until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._task = asyncio.create_task(self._watching.run())
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError:
                self._task.cancel()
                await asyncio.wait([self._task])
                raise
            if not self._task.cancelled():
                self._task.result()
            await self._may_look.wait()
            self._watching = await asyncio.to_thread(self._made)

    @contextlib.contextmanager
    def looking_away(self) -> Iterator[None]:
        """Look at nothing while another cluster takes the place; any thread may ask."""
        asyncio.run_coroutine_threadsafe(self._look_away(), self._loop).result()
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._may_look.set)

    async def _look_away(self) -> None:
        self._may_look.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.to_thread(self._watching.wait_ended)

    def _made(self) -> Watching:
        return Watching(
            self._watched(),
            self.published,
            self._tell,
            may_break=self._may_break,
            needs_token=self._needs_token,
        )

    def _tell(self) -> None:
        self.news.set()
        self.news = asyncio.Event()
