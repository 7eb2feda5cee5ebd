"""The small side of a join with a table that grows with the log.

Left to itself, Spark sorts both sides before it knows that one of them is small, or empty. Looking
first costs one small job, and the large table is then read once, or not at all.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

BROADCAST_ROWS = 200_000
"""Up to so many rows are sent to every task; some tens of megabytes."""


def joined_with_few(large: DataFrame, few: DataFrame, keys: list[str], how: str) -> DataFrame:
    """Join a large table with another one that is mostly small.

    Args:
        large: The table that grows with the log.
        few: The other one; it is looked at now.
        keys: Columns that both have.
        how: Kind of the join, one that gives nothing for an empty `few`.
    """
    rows = few.limit(BROADCAST_ROWS + 1).count()
    if rows == 0:
        # Without a row, and without the large table in the plan.
        large = large.where(F.lit(False))
    return large.join(F.broadcast(few) if rows <= BROADCAST_ROWS else few, keys, how)
