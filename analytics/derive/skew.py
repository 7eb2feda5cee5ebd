"""How evenly replicas lie on brokers, and on the online directories of a broker."""

from __future__ import annotations

from analytics.derive.placed import COUNTS, per_place

SKEW = f"""
    SELECT scope, broker, directory, {", ".join(COUNTS)},
      CASE WHEN total > 0 THEN replicas / total END AS share_of_replicas,
      mean_replicas,
      CASE WHEN mean_replicas > 0 THEN replicas / mean_replicas - 1 END AS deviation,
      mean_leaders,
      CASE WHEN mean_leaders > 0 THEN leaders / mean_leaders - 1 END AS leader_deviation
    FROM (
      SELECT *, sum(replicas) OVER peers AS total, avg(replicas) OVER peers AS mean_replicas,
        avg(leaders) OVER peers AS mean_leaders
      FROM ({per_place(COUNTS, "places")})
      WINDOW peers AS (PARTITION BY scope, CASE WHEN scope = 'directory' THEN broker END)
    )
"""
"""The question that gives the table, a row per registered broker and per online directory.

It is asked of those of brokers and directories, and of `places` of every bucket.
"""
