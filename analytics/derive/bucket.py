"""What is derived of the partitions of one bucket, by the questions of `bucket_sql`."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.log_end import LogEnd
from analytics.derive.sql_files import Scope, SqlFiles, texts
from analytics.store.questions import GivenTables
from analytics.tables import catalog as t
from analytics.tables.derived import BUCKET_SUMS, DERIVED_TABLES, FAILURES
from analytics.tables.table import Table

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
) -> Mapping[Table, pa.Table]:
    """Derive the tables of one bucket.

    Args:
        tables: The rows of the bucket in the tables of FACTS; one that lacks has none.
        failures: All failures of the cluster, as `cluster.known_failures` gives them.
        end: End of the log.

    Returns:
        The rows of each of BUCKET_TABLES, in no order.
    """
    given = {each.name: tables.get(each, each.schema.empty_table()) for each in FACTS}
    with SqlFiles(Scope.BUCKET, GivenTables({**given, FAILURES.name: failures}), end) as sql:
        return {table: sql.answer(table) for table in BUCKET_TABLES}
