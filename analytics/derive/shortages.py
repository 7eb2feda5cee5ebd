"""When the partitions of a bucket could not be read or written, by columns.

A partition without leader can be neither read nor written. Under min ISR it can be read, but not
written by a producer that wants all acknowledgements (``acks=all``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.decode.arrow_columns import times as time_array
from analytics.decode.arrow_columns import words
from analytics.decode.arrow_reading import FOR_EVER, firsts, longs, texts, times
from analytics.decode.partition_events import NO_TIME
from analytics.derive.intervals import Intervals, joined
from analytics.derive.partition_order import PartitionKeys
from analytics.tables.table import LONG, STRING, TIME

LEADERLESS, UNDER_MIN_ISR, UNWRITABLE = "leaderless", "under_min_isr", "unwritable"

SHORTAGE = pa.schema(
    [
        pa.field("topic_id", STRING),
        pa.field("kind", STRING),
        pa.field("from_time", TIME),
        pa.field("to_time", TIME),
        pa.field("count", LONG),
    ]
)
"""So many partitions of a topic were so from then to then."""


def outage_intervals(outages: pa.Table, keys: PartitionKeys) -> dict[str, Intervals]:
    """Return when partitions were what, by kind; those of a partition do not overlap."""
    key = keys.of(outages)
    is_open = longs(outages.column("to_offset"), FOR_EVER) == FOR_EVER
    until = np.where(is_open, FOR_EVER, times(outages.column("to_time")))
    every = Intervals(np.zeros_like(key), key, times(outages.column("from_time")), until)
    kind = texts(outages.column("kind"))
    found = {
        name: every.take(np.nonzero(kind.where_in(frozenset((name,))))[0])
        for name in (LEADERLESS, UNDER_MIN_ISR)
    }
    return {**found, UNWRITABLE: joined(every)}


def shortages(intervals: dict[str, Intervals], keys: PartitionKeys, end_us: int | None) -> pa.Table:
    """Return rows of SHORTAGE.

    Args:
        intervals: As `outage_intervals` gives them.
        keys: Numbers of partitions.
        end_us: End of the log, up to which lasts what is open; None if it is not known.
    """
    names = {number: text for text, number in keys.topics.items()}
    parts = [SHORTAGE.empty_table()]
    for kind, given in intervals.items():
        topic = given.key >> 32
        until = np.where(given.end == FOR_EVER, NO_TIME if end_us is None else end_us, given.end)
        order = np.lexsort((until, given.start, topic))
        topic, start, until = topic[order], given.start[order], until[order]
        heads = np.nonzero(firsts(topic, start, until))[0]
        count = np.append(heads[1:], len(order))[: len(heads)] - heads
        columns = {
            "topic_id": pa.array([names[number] for number in topic[heads].tolist()], STRING),
            "kind": words(np.zeros(len(heads), dtype=np.int32), [kind]),
            "from_time": time_array(start[heads]),
            "to_time": time_array(until[heads]),
            "count": pa.array(count),
        }
        arrays = [columns[field.name].cast(field.type) for field in SHORTAGE]
        parts.append(pa.Table.from_arrays(arrays, schema=SHORTAGE))
    return pa.concat_tables(parts)
