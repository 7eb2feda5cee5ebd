"""What is derived of the partitions of one bucket, by the questions of `bucket_sql`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.log_end import LogEnd
from analytics.derive.sql_files import Scope, SqlFiles, texts
from analytics.store.questions import GivenTables
from analytics.tables import catalog as t
from analytics.tables.derived import BUCKET_SUMS, DERIVED_TABLES, FAILURES
from analytics.tables.table import STRING, Table

FACTS = (
    t.PARTITION_HISTORY,
    t.PARTITIONS,
    t.LEADERSHIP,
    t.ISR_CHANGES,
    t.REPLICA_PLACEMENT,
    t.OUTAGES,
)
"""The tables of facts about partitions, of which the others are derived."""

OF_PARTITIONS = tuple(each for each in DERIVED_TABLES if each.name in texts(Scope.BUCKET))
"""Tables of a result whose rows are each of one partition."""

BUCKET_TABLES = (*OF_PARTITIONS, *BUCKET_SUMS)
"""All that a bucket gives; the sums are summed up over buckets, and go with the scratch folder."""


def derive_bucket(
    tables: Mapping[Table, pa.Table], failures: pa.Table, end: LogEnd
) -> Iterator[tuple[Table, pa.Table]]:
    """Derive the tables of one bucket.

    Args:
        tables: The rows of the bucket in the tables of FACTS; one that lacks has none.
        failures: All failures of the cluster, as `cluster.known_failures` gives them.
        end: End of the log.

    Yields:
        Each of BUCKET_TABLES and its rows, in no order.
    """
    facts = {each.name: tables.get(each, each.schema.empty_table()) for each in FACTS}
    with _BucketSql(facts, failures, end) as sql:
        for table in BUCKET_TABLES:
            yield table, sql.answer(table)


_REPEATED = ("topic", "topic_id", "directory")


class _BucketSql(SqlFiles):
    """Gives texts that repeat to the queries as numbers: texts take half as long again."""

    def __init__(self, facts: Mapping[str, pa.Table], failures: pa.Table, end: LogEnd) -> None:
        super().__init__(Scope.BUCKET, GivenTables({**facts, FAILURES.name: failures}), end)
        self._facts = facts
        for name in _REPEATED:
            columns = [each.column(name) for each in facts.values() if name in each.schema.names]
            texts = [_texts_of(part) for column in columns for part in column.chunks]
            self.give("texts", pa.table({"text": pa.chunked_array(texts, STRING)}))
            asked = "SELECT DISTINCT text FROM texts WHERE text IS NOT NULL"
            self._connection.execute(f"CREATE TYPE {name} AS ENUM ({asked})")

    def _add(self, name: str) -> None:
        if name not in self._facts:
            super()._add(name)
            return
        self.give(f"given_{name}", self._facts[name])
        repeated = [each for each in _REPEATED if each in self._facts[name].schema.names]
        numbers = ", ".join(f"{each}::{each} AS {each}" for each in repeated)
        asked = f"SELECT * REPLACE ({numbers}) FROM given_{name}"
        self._connection.execute(f"CREATE TEMP VIEW {name} AS {asked}")


def _texts_of(column: pa.Array) -> pa.Array:
    return column.dictionary if pa.types.is_dictionary(column.type) else column
