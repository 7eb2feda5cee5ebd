"""Figures of what may go wrong next: thin partitions, single failures, imbalance."""

from __future__ import annotations

from analytics.page.figure import LINES, PLACES, Figure, Unit, figure_columns, names_of
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid

_RESERVED = ", ".join(
    f"'{kafka_uuid.to_text(each)}'"
    for each in (directory_ids.UNASSIGNED, directory_ids.LOST, directory_ids.MIGRATING)
)
# Where no broker tells its rack, nothing is known of racks.
_PARTITIONS = (
    "  SELECT p.*, least(coalesce(t.min_insync_replicas, 1), len(replicas)) AS min_isr,\n"
    "    list_transform(replicas, lambda each: racks[each]) AS own_racks\n"
    "  FROM {partitions} p LEFT JOIN (\n"
    "    SELECT topic_id AS id, min_insync_replicas FROM {topics}\n"
    "  ) t ON p.topic_id = t.id\n"
    "  CROSS JOIN (\n"
    "    SELECT map_from_entries(list((broker, nullif(rack, '')))) AS racks\n"
    "    FROM {brokers}\n"
    "  )\n"
)
_SINGLE = "len(replicas) = 1"
# As Kafka counts: also where every replica is in sync, and none of them may fail.
_AT_MIN = "leader <> -1 AND len(replicas) > 1 AND len(isr) = min_isr"
_UNDER_MIN = "len(isr) < min_isr"
_ONE_RACK = (
    "len(replicas) > 1"
    " AND len(list_filter(own_racks, lambda each: each = own_racks[1])) = len(replicas)"
)
_UNPLACED = f"len(list_filter(directories, lambda each: each IN ({_RESERVED})))"

RISK_NOW = Figure(
    name="risk_now",
    title="Risk at the end of the log",
    sql=(
        "SELECT * FROM (\n"
        f"  SELECT count(*) FILTER (WHERE {_SINGLE}) AS single_replica_now,\n"
        f"    count(*) FILTER (WHERE {_AT_MIN}) AS at_min_isr_now,\n"
        f"    count(*) FILTER (WHERE {_UNDER_MIN}) AS under_min_isr_now,\n"
        f"    count(*) FILTER (WHERE {_ONE_RACK}) AS in_one_rack_now,\n"
        "    count(*) FILTER (WHERE leader <> -1 AND leader <> replicas[1]) AS not_preferred_now,\n"
        f"    coalesce(sum({_UNPLACED}), 0) AS replicas_without_directory_now\n"
        f"  FROM (\n{_PARTITIONS}  )\n"
        ") CROSS JOIN (\n"
        "  SELECT\n"
        "  count(*) FILTER (WHERE scope = 'directory' AND replicas = 0) AS empty_directories_now,\n"
        "    max(abs(deviation)) FILTER (WHERE scope = 'broker') AS replica_imbalance_now,\n"
        "    max(abs(leader_deviation)) FILTER (WHERE scope = 'broker')\n"
        "      AS leader_imbalance_now\n"
        "  FROM {skew}\n"
        ") CROSS JOIN (\n"
        "  SELECT coalesce(max(leaderless) FILTER (WHERE scope = 'directory'), 0)\n"
        "      AS leaderless_by_one_directory,\n"
        "    coalesce(max(leaderless) FILTER (WHERE scope = 'broker'), 0)\n"
        "      AS leaderless_by_one_broker\n"
        "  FROM {what_if}\n"
        ")"
    ),
    columns=figure_columns(
        [
            ("single_replica_now", "Partitions with one replica", Unit.NUMBER),
            ("at_min_isr_now", "At min ISR", Unit.NUMBER),
            ("under_min_isr_now", "Under min ISR", Unit.NUMBER),
            ("in_one_rack_now", "All replicas in one rack", Unit.NUMBER),
            ("not_preferred_now", "Not led by the first replica", Unit.NUMBER),
            ("replicas_without_directory_now", "Replicas without a directory", Unit.NUMBER),
            ("empty_directories_now", "Directories without replicas", Unit.NUMBER),
            ("replica_imbalance_now", "Replicas of a broker off the mean", Unit.DEVIATION),
            ("leader_imbalance_now", "Leaders of a broker off the mean", Unit.DEVIATION),
            ("leaderless_by_one_directory", "Worst directory leaves leaderless", Unit.NUMBER),
            ("leaderless_by_one_broker", "Worst broker leaves leaderless", Unit.NUMBER),
        ]
    ),
)
TOPICS_AT_RISK = Figure(
    name="topics_at_risk",
    title="Topics with thin partitions, the worst first",
    sql=(
        "SELECT * FROM (\n"
        "  SELECT topic, topic_id, count(*) AS partitions,\n"
        "    count(*) FILTER (WHERE leader = -1) AS leaderless,\n"
        f"    count(*) FILTER (WHERE {_UNDER_MIN}) AS under_min_isr,\n"
        f"    count(*) FILTER (WHERE {_AT_MIN}) AS at_min_isr,\n"
        f"    count(*) FILTER (WHERE {_SINGLE}) AS single_replica,\n"
        f"    count(*) FILTER (WHERE {_ONE_RACK}) AS in_one_rack\n"
        f"  FROM (\n{_PARTITIONS}  ) GROUP BY topic, topic_id\n"
        ") WHERE leaderless + under_min_isr + at_min_isr + single_replica + in_one_rack > 0\n"
        "ORDER BY leaderless DESC, under_min_isr DESC, at_min_isr DESC, single_replica DESC,\n"
        "  in_one_rack DESC, topic, topic_id"
    ),
    columns=figure_columns(
        [
            ("topic", "Topic", Unit.TEXT),
            ("topic_id", "Topic id", Unit.ID),
            ("partitions", "Partitions", Unit.NUMBER),
            ("leaderless", "Without leader", Unit.NUMBER),
            ("under_min_isr", "Under min ISR", Unit.NUMBER),
            ("at_min_isr", "At min ISR", Unit.NUMBER),
            ("single_replica", "With one replica", Unit.NUMBER),
            ("in_one_rack", "All replicas in one rack", Unit.NUMBER),
        ]
    ),
    limit=LINES,
)
EMPTY_DIRECTORIES = Figure(
    name="empty_directories",
    title="Directories without replicas",
    sql=(
        "SELECT broker, directory, mean_replicas FROM {skew}\n"
        "WHERE scope = 'directory' AND replicas = 0 ORDER BY broker, directory"
    ),
    columns=figure_columns(
        [
            ("broker", "Broker", Unit.LABEL),
            ("directory", "Directory", Unit.ID),
            ("mean_replicas", "Mean of its broker", Unit.NUMBER),
        ]
    ),
    limit=LINES,
)


def what_if(scope: str, title: str) -> Figure:
    """What the failure of each directory, or of each broker, would do, the worst first."""
    places = PLACES[scope]
    own = names_of(places)
    return Figure(
        name=f"what_if_{scope}",
        title=title,
        sql=(
            f"SELECT {own}, leaderless, only_copies, under_min_isr, unclean, leaders_moved,\n"
            "  replicas\n"
            f"FROM {{what_if}} WHERE scope = '{scope}'\n"
            "  AND leaderless + only_copies + under_min_isr + leaders_moved > 0\n"
            "ORDER BY leaderless DESC, only_copies DESC, under_min_isr DESC, unclean DESC,\n"
            f"  leaders_moved DESC, {own}"
        ),
        columns=figure_columns(
            [
                *places,
                ("leaderless", "Would have no leader", Unit.NUMBER),
                ("only_copies", "Only copies there", Unit.NUMBER),
                ("under_min_isr", "Would be under min ISR", Unit.NUMBER),
                ("unclean", "Would lose records", Unit.NUMBER),
                ("leaders_moved", "Would be led by others", Unit.NUMBER),
                ("replicas", "Replicas", Unit.NUMBER),
            ]
        ),
        limit=LINES,
    )


WHAT_IF_DIRECTORY = what_if("directory", "If one directory failed now, the worst first")
WHAT_IF_BROKER = what_if("broker", "If one broker failed now, the worst first")
