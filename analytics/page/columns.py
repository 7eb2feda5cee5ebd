"""Titles and units of the columns of figures: one name means the same in every figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jbodlab.pages.values import Column, Unit

_UNITS: Mapping[Unit, str] = {
    Unit.TEXT: "topic what kind cause began_by ended_by closed_by change outcome state feature "
    "rack type text message noticed why cluster misses_objective min_insync_replicas_from "
    "last_leader_in_same_batch principal permission operation resource_type resource_name pattern "
    "host user mechanism",
    Unit.ID: "topic_id directory from_directory to_directory",
    Unit.LABEL: "partition broker node controller previous_controller from_broker to_broker epoch "
    "broker_epoch level offset",
    Unit.TIME: "time bucket",
    Unit.SHARE: "availability write_availability objective read_budget_used write_budget_used "
    "share_of_replicas",
    Unit.DEVIATION: "deviation leader_deviation replica_imbalance_now leader_imbalance_now",
    Unit.DAY: "day",
    Unit.DURATION: "out_ms_total out_ms_max",
}
_UNIT_OF = {name: unit for unit, names in _UNITS.items() for name in names.split()}
_SUFFIXES = (("_time", Unit.TIME), ("_offset", Unit.LABEL), ("_ms", Unit.DURATION))

_TITLES: Mapping[str, str] = {
    "at_end": "At the end of the period",
    "availability": "Available for reading",
    "began_by": "Cause",
    "brokers": "Brokers ever registered",
    "bucket": "From",
    "deviation": "Replicas off the mean",
    "directories": "Directories ever known",
    "empty_directories_now": "Directories without replicas",
    "end_time": "Last record",
    "epochs": "Controller epochs",
    "ever": "Highest in the period",
    "expands": "Rejoined the ISR",
    "gap_ms": "No record for",
    "in_one_rack": "All replicas in one rack",
    "in_one_rack_now": "All replicas in one rack",
    "incidents": "Failures of directories and brokers",
    "last_leader_in_same_batch": "Last new leader in the same batch",
    "lasted_ms": "Duration",
    "leader_deviation": "Leaders off the mean",
    "leader_imbalance_now": "Leaders of a broker off the mean",
    "leaderless": "Without leader",
    "leaderless_by_one_broker": "Without leader if the worst broker failed",
    "leaderless_by_one_directory": "Without leader if the worst directory failed",
    "leaderless_ms": "Time without leader",
    "leaderless_now": "Without leader now",
    "leaders_lost": "Lost their leader",
    "leaders_still_lost": "Without leader to the end",
    "longest_leaderless_ms": "Longest without leader",
    "max_ms": "Longest",
    "message": "First message",
    "min_insync_replicas": "min.insync.replicas",
    "min_insync_replicas_from": "Source",
    "misses_objective": "Misses the objective for",
    "never": "Still open",
    "no_ops": "No-ops",
    "not_preferred_now": "Not led by the first replica",
    "noticed": "Message of the broker",
    "noticed_before_ms": "Logged before the record by",
    "noticed_time": "Logged by the broker",
    "offline": "Directories offline",
    "online": "Directories online",
    "only_copies": "Only copies there",
    "out_ms_max": "Longest outside the ISR",
    "out_ms_total": "Time outside the ISR",
    "p50_ms": "50 % within",
    "p95_ms": "95 % within",
    "p99_ms": "99 % within",
    "partition_ms": "Time of all partitions",
    "partitions_touched": "Replicas affected",
    "read_budget_used": "Error budget used by reads",
    "replica_imbalance_now": "Replicas of a broker off the mean",
    "shrinks": "Left the ISR",
    "single_replica_now": "Partitions with one replica",
    "slowest_isr_ms": "Longest to the full ISR",
    "slowest_leader_ms": "Longest to the last new leader",
    "slowest_ms": "Longest",
    "snapshot_records": "Records in snapshots",
    "still_short": "Not recovered",
    "sum_ms": "Sum over partitions",
    "text": "First change",
    "time_to_last_leader_ms": "Time to the last new leader",
    "times": "Samples",
    "to_none": "To no leader",
    "topics_below_objective": "Topics below the objective",
    "topics_ever": "Topics ever",
    "unclean": "Would lose records",
    "under_min_isr_ms": "Time under min ISR",
    "under_replicated_now": "Under-replicated now",
    "unwritable_ms": "Time without leader or under min ISR",
    "valid_from_offset": "From offset",
    "valid_from_time": "From",
    "valid_to_time": "To",
    "without_failure": "Without a failure in the metadata log",
    "why": "Command",
    "write_availability": "Available for writing",
    "write_budget_used": "Error budget used by writes",
}


def columns(names: Iterable[str], titles: Mapping[str, str]) -> tuple[Column, ...]:
    """Return columns.

    Args:
        names: Their names.
        titles: Where they differ from those that a name has elsewhere.
    """
    return tuple(
        Column(name=name, title=titles.get(name) or _title(name), unit=_unit(name))
        for name in names
    )


def _title(name: str) -> str:
    words = name.removesuffix("_ms").removesuffix("_time").replace("_", " ")
    return _TITLES.get(name) or words.capitalize().replace(" isr", " ISR")


def _unit(name: str) -> Unit:
    if name in _UNIT_OF:
        return _UNIT_OF[name]
    found = [unit for suffix, unit in _SUFFIXES if name.endswith(suffix)]
    return found[0] if found else Unit.NUMBER
