"""What failures cost the partitions of one bucket: outages that are put down to them, by columns.

An outage that a directory or a broker caused belongs to the first failure of it that was not over
when the outage began: what a controller does about a failure may stand before the record of the
failure, and while it lasts, more may follow.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Bools, Longs
from analytics.decode.arrow_reading import FOR_EVER, firsts, longs, texts, times
from analytics.decode.partition_events import NO_TIME
from analytics.derive.failures import Failures, Places
from analytics.derive.partition_order import PartitionKeys
from analytics.derive.shortages import LEADERLESS, UNDER_MIN_ISR
from analytics.tables.table import LONG

CAUSED_BY_FAILURES = frozenset(("directory", "broker"))
KINDS = (LEADERLESS, UNDER_MIN_ISR)
STILL_SHORT = "still_short"
COSTS = pa.schema(
    [
        *(
            pa.field(name, LONG)
            for kind in KINDS
            for name in (kind, f"{kind}_ms", f"longest_{kind}_ms")
        ),
        pa.field(STILL_SHORT, LONG),
    ]
)
"""How many partitions had an outage of each kind, for how long in all and at most, in milliseconds
or null if no time is known, and how many still have one."""

_US_PER_MS = 1000


def failure_costs(
    outages: pa.Table, keys: PartitionKeys, failures: Failures, end_us: int | None
) -> list[dict[str, object]]:
    """Return what failures cost the partitions of a bucket.

    Args:
        outages: Of the bucket.
        keys: Numbers of partitions.
        failures: All of them.
        end_us: End of the log, microseconds since 1970, up to which lasts what is open.

    Returns:
        The number of each failure that cost something, and its costs, of schema COSTS.
    """
    owner = _owners(outages, failures)
    rows = np.nonzero(owner >= 0)[0]
    rows = rows[np.argsort(owner[rows], kind="stable")]
    owner = owner[rows]
    kind = texts(outages.column("kind"))
    key = keys.of(outages)[rows]
    lasted = _lasted_ms(outages, end_us)[rows]
    is_open = longs(outages.column("to_offset"), FOR_EVER)[rows] == FOR_EVER
    of_kind = {name: kind.where_in(frozenset((name,)))[rows] for name in KINDS}
    found: list[dict[str, object]] = []
    bounds = [*np.nonzero(firsts(owner))[0].tolist(), len(rows)]
    for low, high in pairwise(bounds):
        own = slice(low, high)
        costs: dict[str, int | None] = {STILL_SHORT: len(np.unique(key[own][is_open[own]]))}
        for name, mine in of_kind.items():
            ms = lasted[own][mine[own]]
            known = ms[ms != NO_TIME]
            costs[name] = len(np.unique(key[own][mine[own]]))
            costs[f"{name}_ms"] = int(known.sum()) if len(known) else None
            costs[f"longest_{name}_ms"] = int(known.max()) if len(known) else None
        found.append({"failure": int(owner[low]), "costs": costs})
    return found


def _owners(outages: pa.Table, failures: Failures) -> Longs:
    """Return the failure that each outage belongs to, -1 for none."""
    caused: Bools = texts(outages.column("cause")).where_in(CAUSED_BY_FAILURES)
    directory = texts(outages.column("directory"))
    broker = longs(outages.column("broker"))
    begin = longs(outages.column("from_offset"))
    owner: Longs = np.full(len(outages), -1, dtype=np.int64)
    for places in Places.of(failures, broker, directory):
        rows = np.nonzero(caused & (directory.codes < 0 if places.are_brokers else caused))[0]
        for mine, own in places.matched(rows):
            own = own[np.argsort(failures.offset[own], kind="stable")]
            # Failures of one place follow one another, and so do their ends.
            first = np.searchsorted(failures.back[own], begin[mine], side="left")
            some = first < len(own)
            owner[mine[some]] = own[first[some]]
    return owner


def _lasted_ms(outages: pa.Table, end_us: int | None) -> Longs:
    start, until = (times(outages.column(name)) for name in ("from_time", "to_time"))
    is_open = longs(outages.column("to_offset"), FOR_EVER) == FOR_EVER
    until = np.where(is_open, NO_TIME if end_us is None else end_us, until)
    unknown = (start == NO_TIME) | (until == NO_TIME)
    spans = np.where(unknown, 0, until) // _US_PER_MS - np.where(unknown, 0, start) // _US_PER_MS
    return np.where(unknown, NO_TIME, spans)
