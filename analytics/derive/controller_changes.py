"""When another controller took over, and how long nothing was written before."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from analytics.tables.frames import run_sql

# One row for each election, so that they fit anywhere: the window has no parts.
_CHANGES = """
    SELECT *, unix_millis(from_time) - unix_millis(last_time) AS gap_ms
    FROM (
      SELECT epoch, controller, from_offset, from_time,
        lag(epoch) OVER in_order AS previous_epoch,
        lag(controller) OVER in_order AS previous_controller,
        lag(last_offset) OVER in_order AS last_offset,
        lag(last_time) OVER in_order AS last_time
      FROM {controller_epochs} LEFT JOIN (
        SELECT epoch, max(last_offset) AS last_offset,
          max_by(last_time, last_offset) AS last_time
        FROM {record_counts} GROUP BY epoch
      ) USING (epoch)
      WINDOW in_order AS (ORDER BY epoch)
    ) WHERE previous_epoch IS NOT NULL
"""


def controller_changes(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the table of controller changes, from those of epochs and of record counts."""
    return run_sql(_CHANGES, tables)
