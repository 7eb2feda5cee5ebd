"""The data dictionary, rendered from the heads of the tables' files."""

from __future__ import annotations

import inspect
from operator import attrgetter

from pyspark.sql.pandas.types import from_arrow_type

from analytics.tables.catalog import TABLES
from analytics.tables.lineage import ORIGINS, made_of
from analytics.tables.table import CLUSTER
from jbodlab.kafka_wire.field_table import field_rows
from jbodlab.metadata.records.registry import BY_NAME

_OF_ALL_TABLES = """\
* Columns carry the snake_case names of Kafka's record fields, ids are in Kafka's 22-character text
  form. Every fact about a log directory has the columns ``broker`` and ``directory``.
* A moment is an offset of the metadata log and the time of the batch that holds it, UTC. A state
  holds from ``valid_from`` inclusive to ``valid_to`` exclusive; null means that it still holds at
  the end of the log.
* All records of one batch are one moment for the cluster, so that states can be compared across
  keys with ``batch_base_offset``. The effects of a failure on partitions are often, but not always,
  in the batch of the failure: a controller closes a batch after 10,000 changes and writes their
  cause behind them, and a replica may leave the ISR before its broker is fenced. So the cause of an
  effect is looked for in its own batch, and then in the next 30 seconds.
* Where the log does not begin at offset 0, the first state comes from a snapshot; such a row has
  the record type ``SNAPSHOT``, the snapshot's end offset and the time of the last record in it.
* The column ``cluster`` is the label of the cluster, and part of every key: ``--input LABEL=URI``,
  else the id in the ``meta.properties`` beside the log, else the part of the path that tells the
  log from the others. The rows of a cluster are in ``TABLE/cluster=LABEL/``; readers of Parquet
  files take the column from this path, the files do not hold it.
* Every table is written, also when it is empty. Running the job again replaces the tables; of a
  cluster whose log has not changed they stay as they are.

![Which tables a table is made of](images/lineage.svg)"""
_FIELDS_OF_RECORDS = """\
The `payload` of a record is JSON with these fields; `a[].b` is the field `b` of each struct in the
list `a`. A record lacks the fields that its `version` has not, and those with a tag that are at
their default. Where no default is named, it is zero, empty or false."""
_HEAD = "| field | type | versions | tag | default | meaning |\n|---|---|---|---|---|---|"


def dictionary() -> str:
    """Return the data dictionary as Markdown."""
    parts = ["# Data dictionary", _OF_ALL_TABLES]
    for table in sorted(TABLES, key=attrgetter("name")):
        lines = ["| column | type | meaning |", "|---|---|---|"]
        lines.append(f"| `{CLUSTER}` | string | label of the cluster |")
        for column in table.columns:
            kind = from_arrow_type(column.type).simpleString()
            lines.append(f"| `{column.name}` | {kind} | {column.meaning} |")
        parts += [f"## {table.name}", f"One row: {table.row}.", "\n".join(lines)]
        path = f"analytics/tables/{table.name}.sql"
        origins = ", ".join(_link(name) for name in made_of(table.name))
        parts.append(f"[`{path}`](../{path}) makes it of: {origins}.")
    parts += ["## Fields of records", _FIELDS_OF_RECORDS]
    for name, cls in BY_NAME.items():
        assert cls.__doc__ is not None
        rows = [f"| `{row.field}` | {' | '.join(row[1:])} |" for row in field_rows(cls)]
        parts += [f"### {name}", inspect.cleandoc(cls.__doc__)]
        if rows:
            parts.append("\n".join([_HEAD, *rows]))
    return "\n\n".join(parts) + "\n"


def _link(name: str) -> str:
    return f"the {name}" if name in ORIGINS else f"[`{name}`](#{name})"
