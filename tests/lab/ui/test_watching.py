"""News that browsers are told while the cluster is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from jbodlab.cli.lab_state import ClusterState
from jbodlab.picture.cluster_picture import ClusterPicture
from lab.ui import watching
from lab.ui.published import Published
from lab.ui.watching import WatchedCluster, Watching

STATE = ClusterState(
    name="c", root="/nonexistent", cluster_id="", uid=0, gid=0, mounts=(), nodes=()
)
DEADLINE_S = 10.0


class Observer:
    """Sees a cluster without brokers."""

    picture = ClusterPicture(brokers=[])
    leading_controller = None
    open_transactions: tuple[Any, ...] = ()
    stuck: Mapping[Any, Any] = MappingProxyType({})

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def begin(self) -> None:
        pass

    def end_soon(self) -> None:
        pass

    def is_alive(self) -> bool:
        return True

    def take(self) -> list[Any]:
        return []


class Browser:
    """Keeps what it was told, as the page does."""

    def __init__(self, published: Published) -> None:
        self._published = published
        self._seen = ""
        self.sections: dict[str, Any] = {}

    async def read(self) -> None:
        if self._seen != self._published.id:
            patch = self._published.since(self._seen)
            self._seen = patch["id"]
            self.sections.update(patch["sections"])


class ReadInTheMiddle(Published):
    """Lets a browser read between the new number and what it stands for, if one ever can."""

    loop: asyncio.AbstractEventLoop
    browser: Browser
    _number = 0

    @property  # type: ignore[override]
    def number(self) -> int:
        return self._number

    @number.setter
    def number(self, value: int) -> None:
        self._number = value
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            if value:
                reading = asyncio.run_coroutine_threadsafe(self.browser.read(), self.loop)
                reading.result(DEADLINE_S)


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "Observer", Observer)


async def browsed() -> tuple[Browser, Published]:
    """Watch until something was published, with a browser that reads whenever it can."""
    published = ReadInTheMiddle("s")
    published.loop = asyncio.get_running_loop()
    browser = published.browser = Browser(published)
    changed = asyncio.Event()
    watched = Watching(
        WatchedCluster(state=STATE, journal=None, are_ours=True),
        published,
        changed.set,
        may_break=False,
        needs_token=False,
    )
    looking = asyncio.create_task(watched.run())
    async with asyncio.timeout(DEADLINE_S):
        await changed.wait()
    await browser.read()
    looking.cancel()
    await asyncio.wait([looking])
    return browser, published


def test_a_browser_misses_no_change_whenever_it_reads(observed: None) -> None:
    browser, published = asyncio.run(browsed())

    assert set(browser.sections) >= {"brokers", "problems", "rates"}
    assert browser.sections == published.whole()["sections"]
