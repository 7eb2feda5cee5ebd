"""The base views of logs besides their rows: what planning knows, and what is assumed."""

from __future__ import annotations

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.rare.min_insync import AssumedMinIsr
from analytics.tables.table import CLUSTER, INT

_LISTS = {"sync_points": "sync_points", "problems": "log_problems"}
"""Lists of structs in the facts, and the view that each becomes."""


def log_views(facts: pa.Table, assumed: AssumedMinIsr) -> dict[str, pa.Table]:
    """Return views by their names.

    Args:
        facts: A row of `read.log_facts` for each log.
        assumed: Value for topics for which a log sets nothing.
    """
    size = len(facts)
    layouts = (
        facts.drop_columns(list(_LISTS))
        .append_column("min_insync_replicas", pa.repeat(pa.scalar(assumed.value, INT), size))
        .append_column("min_insync_replicas_from", pa.repeat(assumed.source, size))
    )
    lists = {view: _of_each_log(facts, name) for name, view in _LISTS.items()}
    return {"log_layouts": layouts, **lists}


def _of_each_log(facts: pa.Table, name: str) -> pa.Table:
    """Return the elements of a list of structs as rows, with the cluster of each."""
    lists = facts.column(name).combine_chunks()
    clusters = facts.column(CLUSTER).combine_chunks().take(pc.list_parent_indices(lists))
    elements = pa.Table.from_struct_array(lists.flatten())
    return elements.add_column(0, CLUSTER, clusters)
