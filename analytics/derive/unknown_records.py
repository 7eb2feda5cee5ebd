"""Records of types and versions that are not known, as later releases and vendors write them."""

from __future__ import annotations

_OF_ONE = """
    SELECT "offset", timestamp, batch_base_offset, file, position, control,
      CAST(regexp_extract(type, '[0-9]+') AS INT) AS type_id, version, raw AS value
    FROM {{{table}}} WHERE type LIKE 'UNKNOWN(%'
"""

UNKNOWN_RECORDS = " UNION ALL ".join(
    _OF_ONE.format(table=table) for table in ("records", "snapshot_records")
)
"""The question that gives the table, from those of records."""
