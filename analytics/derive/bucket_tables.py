"""What is derived of the partitions of one bucket: whole rows of tables, and parts of failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.bucket_rows import (
    HISTORY,
    ISR_CHANGE,
    LEADERSHIP,
    OUTAGE,
    PARTITION,
    PLACEMENT,
    BucketRows,
)
from analytics.derive.change_counts import change_counts
from analytics.derive.failure_costs import failure_costs
from analytics.derive.failure_parts import failure_parts
from analytics.derive.failures import Failures
from analytics.derive.gauges import STEP, offline_steps, partition_steps, replica_steps
from analytics.derive.isr_flaps import isr_flaps
from analytics.derive.leadership_churn import leadership_churn
from analytics.derive.lives import LIFE, lives
from analytics.derive.log_end import LogEnd
from analytics.derive.partition_order import PartitionKeys
from analytics.derive.placed import PLACED, placed
from analytics.derive.placement_steps import assignment_lag, directory_moves, placements
from analytics.derive.reassignments import reassignments
from analytics.derive.shortages import SHORTAGE, outage_intervals, shortages
from analytics.tables import catalog as t
from analytics.tables.table import Table
from analytics.tables.table import columns as table_columns

OF_PARTITIONS = (t.MOVES, t.ASSIGNMENT_LAG, t.ISR_FLAPS, t.LEADERSHIP_CHURN)
"""Tables whose rows are each of one partition."""


def _small(name: str, row: str, schema: pa.Schema) -> Table:
    lines = ((field.name, field.type, "") for field in schema)
    return Table(name=name, row=row, columns=table_columns(*lines), order=())


LIVES = _small("lives", "equal lives of partitions", LIFE)
PLACES = _small("places", "replicas of a directory", PLACED)
CHANGES = _small("changes", "equal changes of partitions", t.CHANGE_COUNTS.schema)
SHORTAGES = _small("shortages", "equal outages of partitions", SHORTAGE)
GAUGE_STEPS = _small("gauge_steps", "by how much a number changes", STEP)

SMALL_TABLES = (LIVES, PLACES, CHANGES, SHORTAGES, GAUGE_STEPS)
"""What is summed up over buckets; it goes with the scratch folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTables:
    """What one bucket gives."""

    rows: Mapping[Table, pa.Table]
    """Rows of the tables of OF_PARTITIONS."""
    small: Mapping[Table, pa.Table]
    """Few rows of the tables of SMALL_TABLES."""
    failures: list[dict[str, object]]
    """Rows of `failure_parts.FAILURE_PART`."""


def derive(rows: BucketRows, failures: Failures, end: LogEnd) -> BucketTables:
    """Derive all tables of one bucket.

    Args:
        rows: Of the bucket, all of them.
        failures: Of directories and brokers, with `since`.
        end: End of the log.
    """
    keys = PartitionKeys()
    placement = rows.rows(t.REPLICA_PLACEMENT, PLACEMENT)
    where = placements(placement, keys)
    history = rows.rows(t.PARTITION_HISTORY, HISTORY)
    leadership = rows.rows(t.LEADERSHIP, LEADERSHIP)
    isr = rows.rows(t.ISR_CHANGES, ISR_CHANGE)
    outages = rows.rows(t.OUTAGES, OUTAGE)
    short = outage_intervals(outages, keys)
    steps = [
        partition_steps(history, short, keys, end),
        replica_steps(where, leadership, keys, end),
    ]
    found = {
        t.MOVES: (directory_moves(where), reassignments(history, keys, where)),
        t.ASSIGNMENT_LAG: (assignment_lag(where),),
        t.ISR_FLAPS: (isr_flaps(isr, keys, where, end.time_us),),
        t.LEADERSHIP_CHURN: (leadership_churn(leadership, keys),),
    }
    of_failures: list[dict[str, object]] = []
    if len(failures):
        of_failures += failure_parts(placement, leadership, history, keys, failures)
        of_failures += failure_costs(outages, keys, failures, end.time_us)
        steps.append(offline_steps(placement, keys, failures, end))
    return BucketTables(
        rows={
            table: pa.concat_tables(
                [_table(columns, table.schema) for columns in parts if columns is not None]
                or [_table(None, table.schema)]
            )
            for table, parts in found.items()
        },
        small={
            LIVES: _table(lives(where, end.time_us), LIFE),
            PLACES: _table(placed(rows.rows(t.PARTITIONS, PARTITION)), PLACED),
            CHANGES: change_counts(leadership, isr, end.bucket_ms),
            SHORTAGES: shortages(short, keys, end.time_us),
            GAUGE_STEPS: pa.concat_tables(steps),
        },
        failures=of_failures,
    )


def _table(columns: Mapping[str, pa.Array] | None, schema: pa.Schema) -> pa.Table:
    if columns is None:
        return schema.empty_table()
    arrays = [columns[field.name].cast(field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
