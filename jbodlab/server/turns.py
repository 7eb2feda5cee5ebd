"""Processes requests in slices, so that other requests are answered in between.

A request may name tens of thousands of items, and a small one may ask for everything in a large
cluster. Work that is done part by part (`InParts`) occupies the loop for `SLICE_S` at a time; work
that waits in between is cut by the number of its items (`Turns`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from jbodlab.server.answer import InParts
from jbodlab.server.response import Response
from jbodlab.vocabulary.limits import FIRST_SLICE_S, SLICE_S

T = TypeVar("T")


class Turns:
    """Shared by large requests that take turns: one of them is worked on in a turn of the loop."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait until the caller may go on for a while."""
        async with self._lock:
            await asyncio.sleep(0)


def slices(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items by so many; the last slice may have less."""
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


class SlicedWork:
    """Works an answer out; an error of its parts leaves `advance`.

    Args:
        answer: The work.
        monotonic_s: Clock that goes on while a callback runs.
    """

    def __init__(self, answer: InParts, monotonic_s: Callable[[], float]) -> None:
        self._answer = answer
        self._monotonic_s = monotonic_s
        self._later: AsyncIterable[Any] | None = None
        self._parts: Iterator[Any] = iter(())
        if isinstance(answer.parts, AsyncIterable):
            self._later = answer.parts
        else:
            self._parts = iter(answer.parts)
        self._done: list[Any] = []

    def begin(self) -> bool:
        """Work for the first slice, a short one; returns whether everything is done."""
        return self._later is None and self._advance(min(FIRST_SLICE_S, SLICE_S))

    def advance(self) -> bool:
        """Work for one slice; returns whether everything is done."""
        return self._advance(SLICE_S)

    def _advance(self, slice_s: float) -> bool:
        end = self._monotonic_s() + slice_s
        for part in self._parts:
            self._done.append(part)
            if self._monotonic_s() >= end:
                return False
        return True

    async def finish(self) -> Response:
        """Work until everything is done."""
        if self._later is not None:
            await self._take_all(self._later)
        while not self.advance():  # noqa: ASYNC110 - the work itself is what is waited for
            await asyncio.sleep(0)
        return self.response()

    async def _take_all(self, parts: AsyncIterable[Any]) -> None:
        end = self._monotonic_s() + SLICE_S
        async for part in parts:
            if part is not None:
                self._done.append(part)
            if self._monotonic_s() >= end:
                await asyncio.sleep(0)
                end = self._monotonic_s() + SLICE_S

    def response(self) -> Response:
        """Return the response of all parts."""
        return self._answer.finish(self._done)
