"""The base views of logs: their rows, what planning knows, and what is assumed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.compute as pc  # type: ignore[import-untyped]

from analytics.rare.min_insync import AssumedMinIsr
from analytics.read.split_rows import COLUMNS, PARTITION_TYPES
from analytics.tables.table import CLUSTER, INT, LONG, STRING, TYPES

_REPEATED = (CLUSTER, "source", "file", "type", "topic", "topic_id")
"""Columns whose texts repeat: as dictionaries they are small, and compared once for each text."""
LOG_ROWS = pa.schema(
    field.with_type(pa.dictionary(pa.int32(), STRING)) if field.name in _REPEATED else field
    for field in COLUMNS
)
"""Columns of the view `log_rows`."""

LINES = pa.schema(
    [
        *(
            (CLUSTER, STRING),
            ("file", STRING),
            ("line", LONG),
            ("time", TYPES["timestamp"]),
            ("level", STRING),
        ),
        *(("broker", INT), ("log_dir", STRING), ("directory", STRING), ("message", STRING)),
    ]
)
"""Lines of brokers' logs, the same for each cluster."""


def log_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of the source without the text of records about partitions.

    Their fields are in columns.
    """
    of_partition = np.asarray(pc.is_in(batch.column("type"), pa.array(PARTITION_TYPES)))
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns |= {name: columns[name].dictionary_encode() for name in _REPEATED}
    # A condition would keep the space of what it leaves out.
    own = pa.array(np.arange(len(batch)), mask=of_partition)
    columns["payload"] = columns["payload"].take(own)
    return pa.RecordBatch.from_pydict(columns, LOG_ROWS)


def log_views(facts: pa.Table, assumed: AssumedMinIsr) -> dict[str, pa.Table]:
    """Return views by their names."""
    size = len(facts)
    layouts = (
        facts.drop_columns(["sync_points"])
        .append_column("min_insync_replicas", pa.repeat(pa.scalar(assumed.value, INT), size))
        .append_column("min_insync_replicas_from", pa.repeat(assumed.source, size))
    )
    return {"log_layouts": layouts, "sync_points": _of_each_log(facts, "sync_points")}


def _of_each_log(facts: pa.Table, name: str) -> pa.Table:
    """Return the elements of a list of structs as rows, with the cluster of each."""
    lists = facts.column(name).combine_chunks()
    clusters = facts.column(CLUSTER).combine_chunks().take(pc.list_parent_indices(lists))
    elements = pa.Table.from_struct_array(lists.flatten())
    return elements.add_column(0, CLUSTER, clusters)
