"""Brokers, topics and settings, from the tables of a moment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from analytics.ask.offline_log import LogRecord, begin_of, end_of, named_rows
from analytics.ask.partition_states import directory
from analytics.engines.duck import DuckEngine
from analytics.rare.min_insync import (
    MIN_INSYNC_REPLICAS,
    AssumedMinIsr,
    MinIsrInForce,
    min_isr_in_force,
)
from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from jbodlab.metadata.records.features import ELR_VERSION
from jbodlab.metadata.records.topic_records import RemoveTopicRecord
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId
from jbodlab.what_if.loss import UNCLEAN_ELECTION

OF_ALL = ""
"""Text in place of a topic in the settings of all brokers."""

_BROKER_RECORDS = (
    RegisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """One record about a broker, with the registration before and after it."""

    source: LogRecord
    broker: BrokerId
    before: BrokerRegistration | None
    after: BrokerRegistration | None

    @property
    def gone_offline(self) -> tuple[DirectoryId, ...]:
        """Directories that were online before, and are not any more."""
        return _missing(self.before, self.after)

    @property
    def come_online(self) -> tuple[DirectoryId, ...]:
        """Directories that are online now and were not."""
        return _missing(self.after, self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLife:
    """One existence of a topic."""

    name: str
    topic_id: str
    created: LogRecord
    removed: LogRecord | None = None


@dataclass(slots=True, kw_only=True)
class Cluster:
    """The cluster at a moment, and how its brokers got there.

    Attributes:
        changes: Of each broker, in order.
        lives: Of each name of a topic, in order.
        brokers: Those that are registered.
        settings: Values by topic and name; those of all brokers have an empty topic.
        has_elr: Whether eligible leader replicas are kept.
        assumed_min_isr: Value for topics for which the log sets nothing.
    """

    changes: dict[BrokerId, list[BrokerChange]] = field(default_factory=dict)
    lives: dict[str, list[TopicLife]] = field(default_factory=dict)
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    settings: Mapping[tuple[str, str], str] = field(default_factory=dict)
    has_elr: bool = False
    assumed_min_isr: AssumedMinIsr = field(default_factory=AssumedMinIsr)

    def min_isr(self, topic: str) -> MinIsrInForce:
        """Return `min.insync.replicas` of a topic."""
        return min_isr_in_force(
            self.settings.get((topic, MIN_INSYNC_REPLICAS)),
            self.settings.get((OF_ALL, MIN_INSYNC_REPLICAS)),
            self.assumed_min_isr,
        )

    def unclean_election(self, topic: str) -> bool:
        """Return whether a topic lets replicas lead that are not in sync."""
        value = self.settings.get((topic, UNCLEAN_ELECTION))
        if value is None:
            value = self.settings.get((OF_ALL, UNCLEAN_ELECTION))
        return value is not None and value.strip().lower() == "true"


def read_cluster(tables: DuckEngine, assumed: AssumedMinIsr) -> Cluster:
    """Return what the tables of a moment say about everything but partitions."""
    tables.make("broker_history", "topic_history", "configs", "features", "few_records")
    changes = dict(_changes(tables))
    latest = {broker: of_broker[-1].after for broker, of_broker in changes.items()}
    settings = tables.ask(f"""
        SELECT resource_name, name, value FROM configs WHERE valid_to_offset IS NULL
          AND (resource_type = 'topic' OR resource_type = 'broker' AND resource_name = '{OF_ALL}')
          AND name IN ('{MIN_INSYNC_REPLICAS}', '{UNCLEAN_ELECTION}')
    """)
    levels = tables.ask(f"""
        SELECT level FROM features WHERE feature = '{ELR_VERSION}' AND valid_to_offset IS NULL
    """)
    return Cluster(
        changes=changes,
        lives=_lives(tables),
        brokers={broker: state for broker, state in latest.items() if state is not None},
        settings={(topic, name): value for topic, name, value in settings.fetchall()},
        has_elr=any(level > 0 for (level,) in levels.fetchall()),
        assumed_min_isr=assumed,
    )


def _lives(tables: DuckEngine) -> dict[str, list[TopicLife]]:
    lives: dict[str, list[TopicLife]] = {}
    for row in named_rows(tables, "FROM topic_history ORDER BY valid_from_offset"):
        removed = end_of(row, RemoveTopicRecord.NAME)
        life = TopicLife(
            name=row["topic"], topic_id=row["topic_id"], created=begin_of(row), removed=removed
        )
        lives.setdefault(life.name, []).append(life)
    return lives


def _changes(tables: DuckEngine) -> Iterator[tuple[BrokerId, list[BrokerChange]]]:
    """Yield the records about each broker that fitted, also those that changed nothing."""
    states: dict[int, list[dict[str, Any]]] = {}
    for row in named_rows(tables, "FROM broker_history ORDER BY broker, valid_from_offset"):
        states.setdefault(row["broker"], []).append(row)
    types = ", ".join(f"'{each.NAME}'" for each in _BROKER_RECORDS)
    records = named_rows(
        tables,
        f"""
        SELECT broker, replay_offset AS valid_from_offset, replay_time AS valid_from_time,
          CASE WHEN snapshot THEN '{SNAPSHOT_TYPE}' ELSE type END AS record_type,
          batch_base_offset, batch_last_offset
        FROM few_records
        WHERE type IN ({types}) AND (is_base OR NOT snapshot)
          AND (snapshot OR "offset" NOT IN (
            SELECT "offset" FROM rare_history WHERE kind = 'problem' AND problem = 'replay'))
        ORDER BY broker, replay_position, "offset"
        """,
    )
    for broker, rows in groupby(records, key=itemgetter("broker")):
        found: list[BrokerChange] = []
        before = None
        for row in rows:
            after = _held(states.get(broker, []), row)
            change = BrokerChange(
                source=begin_of(row), broker=BrokerId(broker), before=before, after=after
            )
            found.append(change)
            before = after
        yield BrokerId(broker), found


def _held(
    states: Sequence[Mapping[str, Any]], record: Mapping[str, Any]
) -> BrokerRegistration | None:
    """Return the registration after a record, of the states in order."""
    place = bisect_right(states, _moment(record), key=_moment)
    if not place:
        return None
    state = states[place - 1]
    end, is_of_log = state["valid_to_offset"], _moment(record)[1]
    if is_of_log and end is not None and end <= record["valid_from_offset"]:
        return None
    cordoned = state["cordoned_log_dirs"]
    return BrokerRegistration(
        broker_id=BrokerId(state["broker"]),
        epoch=BrokerEpoch(state["broker_epoch"]),
        incarnation_id=kafka_uuid.parse(state["incarnation_id"]),
        rack=state["rack"],
        fenced=state["fenced"],
        in_controlled_shutdown=state["in_controlled_shutdown"],
        directories=tuple(map(directory, state["log_dirs"])),
        cordoned_directories=None if cordoned is None else tuple(map(directory, cordoned)),
    )


def _moment(row: Mapping[str, Any]) -> tuple[int, bool]:
    """Return what moments are ordered by: a snapshot stands before the record at its end."""
    return row["valid_from_offset"], row["record_type"] != SNAPSHOT_TYPE


def _missing(
    of: BrokerRegistration | None, others: BrokerRegistration | None
) -> tuple[DirectoryId, ...]:
    if of is None:
        return ()
    known = () if others is None else others.directories
    return tuple(
        each for each in of.directories if each not in known and not directory_ids.is_reserved(each)
    )
