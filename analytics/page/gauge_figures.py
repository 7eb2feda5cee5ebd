"""Figures of numbers over time, and of what was changed when."""

from __future__ import annotations

from analytics.page.figure import PLACES, POINTS, Figure
from jbodlab.pages.plots import Bars, Steps

SERIES = 8
MARKS = 500
_OF_PARTITIONS = (
    "leaderless",
    "under_min_isr",
    "under_replicated",
    "not_preferred",
    "offline_replicas",
)

GAUGES = Figure(
    name="gauges",
    title="Partitions, directories and brokers over time",
    sql=(
        "SELECT what, from_time AS bucket, at_end, ever\n"
        "FROM gauges WHERE broker IS NULL ORDER BY bucket, what"
    ),
    note="The highest number in each period. The log is divided into at most 200 periods.",
    plots=(
        Steps(
            title="Partitions without leader, under min ISR, under-replicated or not led by the "
            "first replica; offline replicas",
            series=("what",),
            value="ever",
            where={"what": _OF_PARTITIONS},
        ),
        Steps(
            title="Directories offline and brokers not serving",
            series=("what",),
            value="ever",
            where={"what": ("offline_directories", "failed_brokers")},
        ),
    ),
    limit=POINTS,
)
RECORD_RATES = Figure(
    name="record_rates",
    title="Records per second, by type",
    sql=(
        "SELECT from_time AS bucket, type, records,\n"
        "  CAST(records * 1000 / stretch_ms AS DOUBLE) AS per_second\n"
        "FROM record_rates ORDER BY bucket, type"
    ),
    plots=(Bars(series="type", value="per_second"),),
    limit=POINTS,
)


def _of_places(scope: str, title: str, where: str) -> Figure:
    """Replicas and leaders of the places where leaders changed most."""
    own = PLACES[scope]
    return Figure(
        name=f"{scope}_gauges",
        title=f"Leaders and replicas of {title} over time",
        sql=(
            f"SELECT what, {own}, from_time AS bucket, at_end\n"
            "FROM gauges JOIN (\n"
            f"  SELECT {own} FROM gauges WHERE {where} GROUP BY {own}\n"
            f"  ORDER BY count(*) FILTER (WHERE what = 'leaders') DESC, {own} LIMIT {SERIES}\n"
            f") USING ({own}) WHERE {where} ORDER BY what, bucket, {own}"
        ),
        plots=tuple(
            Steps(
                title=f"{what.capitalize()} of {title}",
                series=tuple(own.split(", ")),
                value="at_end",
                where={"what": (what,)},
            )
            for what in ("leaders", "replicas")
        ),
        note=f"The {title} with the most changes of leaders.",
        limit=POINTS,
    )


BROKER_GAUGES = _of_places("broker", "brokers", "broker IS NOT NULL AND directory IS NULL")
DIRECTORY_GAUGES = _of_places("directory", "directories", "directory IS NOT NULL")

_RIGHT = (
    "principal || ': ' || permission || ' ' || operation || ' ' || resource_type || ' ' "
    "|| resource_name"
)

# Changes in one batch share a mark, which is named after the first change.
MARKS_OVER_TIME = Figure(
    name="marks",
    title="Changes of topics, settings, feature levels and rights",
    sql=(
        'SELECT time, what, first(text ORDER BY "offset", text) AS text, count(*) AS changes,\n'
        '  min("offset") AS "offset"\n'
        "FROM (\n"
        "  SELECT valid_from_time AS time, 'topic created' AS what, topic AS text,\n"
        "    valid_from_offset AS \"offset\" FROM topic_history WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        "  SELECT valid_to_time, 'topic deleted', topic, valid_to_offset\n"
        "  FROM topic_history WHERE valid_to_offset IS NOT NULL\n"
        "  UNION ALL\n"
        "  SELECT valid_from_time, 'setting',\n"
        "    resource_type || ' ' || resource_name || ': ' || name || ' = ' || value,\n"
        "    valid_from_offset FROM configs WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        "  SELECT valid_to_time, 'setting removed',\n"
        "    resource_type || ' ' || resource_name || ': ' || name, valid_to_offset\n"
        "  FROM configs ANTI JOIN (\n"
        "    SELECT resource_type, resource_name, name, valid_from_offset AS valid_to_offset\n"
        "    FROM configs\n"
        "  ) USING (resource_type, resource_name, name, valid_to_offset)\n"
        "  WHERE valid_to_offset IS NOT NULL\n"
        "  UNION ALL\n"
        "  SELECT valid_from_time, 'feature level', feature || ' ' || level,\n"
        "    valid_from_offset FROM features WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        f"  SELECT valid_from_time, 'right added', {_RIGHT},\n"
        "    valid_from_offset FROM acls WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        f"  SELECT valid_to_time, 'right removed', {_RIGHT},\n"
        "    valid_to_offset FROM acls WHERE valid_to_offset IS NOT NULL\n"
        "  UNION ALL\n"
        "  SELECT valid_from_time, 'password set', \"user\" || ' ' || mechanism,\n"
        "    valid_from_offset FROM scram_users WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        "  SELECT valid_to_time, 'user removed', \"user\" || ' ' || mechanism, valid_to_offset\n"
        "  FROM scram_users ANTI JOIN (\n"
        '    SELECT "user", mechanism, valid_from_offset AS valid_to_offset FROM scram_users\n'
        '  ) USING ("user", mechanism, valid_to_offset)\n'
        "  WHERE valid_to_offset IS NOT NULL\n"
        ') GROUP BY time, what ORDER BY "offset" DESC, what'
    ),
    titles={"changes": "Changes in the batch"},
    note="Every time axis shows them as small marks. Changes in one batch share a mark.",
    limit=MARKS,
)
