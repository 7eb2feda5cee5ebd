"""Figures of what may go wrong next: thin partitions, single failures, imbalance."""

from __future__ import annotations

from analytics.page.figure import LINES, PLACES, Figure
from jbodlab.pages.plots import Ranking
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid

_RESERVED = ", ".join(
    f"'{kafka_uuid.to_text(each)}'"
    for each in (directory_ids.UNASSIGNED, directory_ids.LOST, directory_ids.MIGRATING)
)
# Where no broker tells its rack, nothing is known of racks.
_PARTITIONS = (
    "  SELECT p.*, least(coalesce(t.min_insync_replicas, 1), len(replicas)) AS min_isr,\n"
    "    list_transform(replicas, lambda each: racks[each]) AS own_racks\n"
    "  FROM partitions p LEFT JOIN (\n"
    "    SELECT topic_id AS id, min_insync_replicas FROM topics\n"
    "  ) t ON p.topic_id = t.id\n"
    "  CROSS JOIN (\n"
    "    SELECT map_from_entries(list((broker, nullif(rack, '')))) AS racks\n"
    "    FROM brokers\n"
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
        "SELECT single_replica_now, at_min_isr_now, under_min_isr_now, in_one_rack_now,\n"
        "  not_preferred_now, replicas_without_directory_now, empty_directories_now,\n"
        "  replica_imbalance_now, leader_imbalance_now, leaderless_by_one_directory,\n"
        "  leaderless_by_one_broker\n"
        "FROM (\n"
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
        "  FROM skew\n"
        ") CROSS JOIN (\n"
        "  SELECT coalesce(max(leaderless) FILTER (WHERE scope = 'directory'), 0)\n"
        "      AS leaderless_by_one_directory,\n"
        "    coalesce(max(leaderless) FILTER (WHERE scope = 'broker'), 0)\n"
        "      AS leaderless_by_one_broker\n"
        "  FROM what_if\n"
        ")"
    ),
)
TOPICS_AT_RISK = Figure(
    name="topics_at_risk",
    title="Topics with partitions at risk, the worst first",
    sql=(
        "SELECT topic, topic_id, partitions, leaderless, under_min_isr, at_min_isr,\n"
        "  single_replica, in_one_rack\n"
        "FROM (\n"
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
    is_open=True,
    limit=LINES,
)
EMPTY_DIRECTORIES = Figure(
    name="empty_directories",
    title="Directories without replicas",
    sql=(
        "SELECT broker, directory, mean_replicas FROM skew\n"
        "WHERE scope = 'directory' AND replicas = 0 ORDER BY broker, directory"
    ),
    limit=LINES,
)


def what_if(scope: str) -> Figure:
    """Return the figure of each failure of a directory, or of a broker, the worst first."""
    own = PLACES[scope]
    return Figure(
        name=f"what_if_{scope}",
        title=f"If one {scope} failed now, the worst first",
        sql=(
            f"SELECT {own}, leaderless, only_copies, under_min_isr, unclean, leaders_moved,\n"
            "  replicas\n"
            f"FROM what_if WHERE scope = '{scope}'\n"
            "  AND leaderless + only_copies + under_min_isr + leaders_moved > 0\n"
            "ORDER BY leaderless DESC, only_copies DESC, under_min_isr DESC, unclean DESC,\n"
            f"  leaders_moved DESC, {own}"
        ),
        plots=(
            Ranking(
                title=f"If one {scope} failed now",
                label=tuple(own.split(", ")),
                values=("leaderless", "under_min_isr", "leaders_moved"),
            ),
        ),
        note=f"The effects of a failure of each {scope}, as jbodlab what-if gives them.",
        limit=LINES,
    )


WHAT_IF_DIRECTORY = what_if("directory")
WHAT_IF_BROKER = what_if("broker")
