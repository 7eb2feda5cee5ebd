"""Where a broker's replica of a partition lies."""

from __future__ import annotations

import numpy as np

from analytics.rare.states import States
from analytics.read.arrays import Bools, Column, Longs
from analytics.read.lists import ID_BYTES, combinations


def directories_of(states: States, rows: Longs, broker: Column) -> tuple[Column, Bools]:
    """Return the directories of some brokers' replicas.

    Args:
        states: States of partitions.
        rows: Which of them.
        broker: For each of these rows, a broker.

    Returns:
        Ids, shape (n, 16), and where the broker has a replica; without one the id is zero.
    """
    replicas, directories = states.codes("replicas")[rows], states.codes("directories")[rows]
    found = combinations(replicas, directories, broker)
    # Of each combination one row is looked at.
    pick = found.rows
    lists = states.distinct("replicas").take(replicas[pick])
    ids = states.distinct("directories")
    owner = np.repeat(np.arange(len(pick)), lists.lengths)
    hits = np.nonzero(lists.values == broker[pick][owner])[0][::-1]
    place = hits - lists.offsets[owner[hits]]
    known = np.zeros(len(pick), dtype=np.bool_)
    values = np.zeros((len(pick), ID_BYTES), dtype=np.uint8)
    known[owner[hits]] = True
    values[owner[hits]] = ids.values[ids.offsets[directories[pick][owner[hits]]] + place]
    return values[found.codes], known[found.codes]
