"""The APIs of a server behind their filters, in the one order that there is.

A request meets counts and quotas, then the filters of the program, then rights, then its handler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from jbodlab.server.answer import Handler
from jbodlab.server.api import Api
from jbodlab.server.authorizing import Authorizing
from jbodlab.server.measured import Measured, Throttle
from jbodlab.server.request_counts import RequestCounts
from jbodlab.server.rights import Rights

Parts = TypeVar("Parts")

Filter = Callable[[Api[Any], Handler], Handler]
"""Returns a handler that sees, and may change, what another one is asked and answers."""


def served(
    apis: Iterable[Api[Parts]],
    parts: Parts,
    *,
    rights: Rights,
    counts: RequestCounts,
    filters: Iterable[Filter] = (),
    throttle: Throttle | None = None,
) -> Iterator[tuple[Api[Parts], Handler]]:
    """Yield each API with its handler, for a `Dispatcher`.

    Args:
        apis: The APIs of a program.
        parts: The parts that handlers are made of.
        rights: Rights of clients.
        counts: Where requests are counted.
        filters: Of the program; the last one is the outermost.
        throttle: Applies the quotas of clients; None without quotas.
    """
    for api in apis:
        handler = api.handler(parts)
        if rights.is_enforced:
            handler = Authorizing(api, handler, rights)
        for each in filters:
            handler = each(api, handler)
        yield api, Measured(api, handler, counts, throttle)
