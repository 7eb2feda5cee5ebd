"""Figures of numbers over time, and of what was changed when."""

from __future__ import annotations

from analytics.page.figure import PLACES, POINTS, Figure, Unit, figure_columns, names_of

SERIES = 8
MARKS = 500

_NUMBERS = (
    ("bucket", "From", Unit.TIME),
    ("at_end", "At the end of this stretch", Unit.NUMBER),
    ("ever", "At any time in it", Unit.NUMBER),
)

GAUGES = Figure(
    name="gauges",
    title="Partitions, directories and brokers over time; a number holds until the next",
    sql=(
        "SELECT what, from_time AS bucket, at_end, ever\n"
        "FROM {gauges} WHERE broker IS NULL ORDER BY bucket, what"
    ),
    columns=figure_columns([("what", "What", Unit.TEXT), *_NUMBERS]),
    limit=POINTS,
)
RECORD_RATES = Figure(
    name="record_rates",
    title="Records per second, by type",
    sql=(
        "SELECT from_time AS bucket, type, records,\n"
        "  CAST(records * 1000 / stretch_ms AS DOUBLE) AS per_second\n"
        "FROM {record_rates} ORDER BY bucket, type"
    ),
    columns=figure_columns(
        [
            ("bucket", "From", Unit.TIME),
            ("type", "Type", Unit.TEXT),
            ("records", "Records", Unit.NUMBER),
            ("per_second", "Per second", Unit.NUMBER),
        ]
    ),
    limit=POINTS,
)


def _of_places(scope: str, title: str, where: str) -> Figure:
    """Replicas and leaders of the places where leaders changed most."""
    places = PLACES[scope]
    own = names_of(places)
    return Figure(
        name=f"{scope}_gauges",
        title=title,
        sql=(
            f"SELECT what, {own}, from_time AS bucket, at_end\n"
            "FROM {gauges} JOIN (\n"
            f"  SELECT {own} FROM {{gauges}} WHERE {where} GROUP BY {own}\n"
            f"  ORDER BY count(*) FILTER (WHERE what = 'leaders') DESC, {own} LIMIT {SERIES}\n"
            f") USING ({own}) WHERE {where} ORDER BY what, bucket, {own}"
        ),
        columns=figure_columns([("what", "What", Unit.TEXT), *places, *_NUMBERS[:2]]),
        limit=POINTS,
    )


BROKER_GAUGES = _of_places(
    "broker",
    "Leaders and replicas of brokers over time",
    "broker IS NOT NULL AND directory IS NULL",
)
DIRECTORY_GAUGES = _of_places(
    "directory", "Leaders and replicas of directories over time", "directory IS NOT NULL"
)

# What was changed at once is one mark, named after the first of it.
MARKS_OVER_TIME = Figure(
    name="marks",
    title="What was changed: topics, settings, feature levels; marks on every axis of time",
    sql=(
        'SELECT time, what, first(text ORDER BY "offset", text) AS text, count(*) AS changes,\n'
        '  min("offset") AS "offset"\n'
        "FROM (\n"
        "  SELECT valid_from_time AS time, 'topic created' AS what, topic AS text,\n"
        "    valid_from_offset AS \"offset\" FROM {topic_history} WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        "  SELECT valid_to_time, 'topic deleted', topic, valid_to_offset\n"
        "  FROM {topic_history} WHERE valid_to_offset IS NOT NULL\n"
        "  UNION ALL\n"
        "  SELECT valid_from_time, 'setting',\n"
        "    resource_type || ' ' || resource_name || ': ' || name || ' = ' || value,\n"
        "    valid_from_offset FROM {configs} WHERE record_type <> 'SNAPSHOT'\n"
        "  UNION ALL\n"
        "  SELECT valid_to_time, 'setting removed',\n"
        "    resource_type || ' ' || resource_name || ': ' || name, valid_to_offset\n"
        "  FROM {configs} ANTI JOIN (\n"
        "    SELECT resource_type, resource_name, name, valid_from_offset AS valid_to_offset\n"
        "    FROM {configs}\n"
        "  ) USING (resource_type, resource_name, name, valid_to_offset)\n"
        "  WHERE valid_to_offset IS NOT NULL\n"
        "  UNION ALL\n"
        "  SELECT valid_from_time, 'feature level', feature || ' ' || level,\n"
        "    valid_from_offset FROM {features} WHERE record_type <> 'SNAPSHOT'\n"
        ') GROUP BY time, what ORDER BY "offset" DESC, what'
    ),
    columns=figure_columns(
        [
            ("time", "Time", Unit.TIME),
            ("what", "What", Unit.TEXT),
            ("text", "The first one", Unit.TEXT),
            ("changes", "Changes at once", Unit.NUMBER),
            ("offset", "Offset", Unit.LABEL),
        ]
    ),
    limit=MARKS,
)
