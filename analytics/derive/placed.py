"""How many replicas of a bucket lie in which directory, by columns; and sums of such numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.bytes.arrays import Longs
from analytics.decode.arrow_columns import words
from analytics.decode.arrow_reading import Texts, elements, longs, texts, whole
from analytics.decode.lists import combinations
from analytics.fold.broker_registration import ONLINE
from analytics.tables.table import INT, LONG, STRING

COUNTS = ("replicas", "leaders", "preferred_leaders")
PLACED = pa.schema(
    [
        pa.field("broker", INT),
        pa.field("directory", STRING),
        *(pa.field(name, LONG) for name in COUNTS),
    ]
)
"""So many replicas, leaders and first replicas lie in this directory of this broker."""


def per_place(numbers: Iterable[str], table: str) -> str:
    """Return SQL for numbers of every online directory and every registered broker.

    Args:
        numbers: Columns of a table, summed up; 0 for what it has no row of.
        table: The table.
    """
    names = tuple(numbers)
    sums = ", ".join(f"sum({name}) AS {name}" for name in names)
    known = ", ".join(f"coalesce({name}, 0) AS {name}" for name in names)
    # A partition has one replica on a broker at most: what is of its directories adds up.
    return f"""
        SELECT scope, broker, directory, {known}
        FROM (
          SELECT 'directory' AS scope, broker, directory FROM {{log_dirs}}
          WHERE state = '{ONLINE}' AND valid_to_offset IS NULL
          UNION ALL
          SELECT 'broker', broker, NULL FROM {{brokers}}
        ) LEFT JOIN (
          SELECT broker AS on_broker, directory AS in_directory,
            CASE WHEN grouping(directory) = 1 THEN 'broker' ELSE 'directory' END AS kind, {sums}
          FROM {{{table}}} GROUP BY GROUPING SETS ((broker, directory), (broker))
        ) ON scope = kind AND broker = on_broker AND directory IS NOT DISTINCT FROM in_directory
    """


def placed(partitions: pa.Table) -> dict[str, pa.Array]:
    """Return the columns of PLACED.

    Args:
        partitions: `leader`, `replicas` and `directories` of partitions at the end of the log.
    """
    replicas = replicas_of(partitions)
    broker, directory = replicas.broker, replicas.directory.codes
    found = combinations(broker, directory)
    size = len(found.rows)
    first = replicas.place == 0
    leads = longs(partitions.column("leader"))[replicas.row] == broker
    return {
        "broker": pa.array(broker[found.rows].astype(np.int32)),
        "directory": words(directory[found.rows], replicas.directory.texts),
        "replicas": pa.array(np.bincount(found.codes, minlength=size)),
        "leaders": pa.array(np.bincount(found.codes[leads], minlength=size)),
        "preferred_leaders": pa.array(np.bincount(found.codes[first], minlength=size)),
    }


class Replicas(NamedTuple):
    """The replicas of some partitions, one by one."""

    row: Longs
    """Of the partition."""
    place: Longs
    """In its list."""
    broker: Longs
    directory: Texts
    """None where the list of directories is too short."""


def replicas_of(partitions: pa.Table) -> Replicas:
    """Return all replicas.

    Args:
        partitions: `replicas` and `directories` of each.
    """
    row, broker = elements(partitions.column("replicas"))
    directories = whole(partitions.column("directories"))
    of_row = np.asarray(pc.list_parent_indices(directories)).astype(np.int64)
    named = texts(pc.list_flatten(directories))
    place, of_place = _places(row), _places(of_row)
    width = 1 + max(int(place.max(initial=0)), int(of_place.max(initial=0)))
    code = np.full((len(partitions), width), -1, dtype=np.int64)
    code[of_row, of_place] = named.codes
    return Replicas(row, place, broker, Texts(code[row, place], named.texts))


def _places(row: Longs) -> Longs:
    """Return where in its list each element stands, for the rows of elements in order."""
    places: Longs = np.arange(len(row)) - np.searchsorted(row, row)
    return places
