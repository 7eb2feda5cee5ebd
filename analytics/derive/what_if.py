"""What would become of the partitions if a directory or a broker failed at the end of the log.

The rule is `derive.loss`, partition by partition, as `jbodlab what-if` asks it for one failure.
For all of them at once, partitions are taken together that differ in nothing but who their replicas
are: who of them leads, is in sync, eligible, alive, coming or going, by their place in the list.
There are few such kinds, however many partitions there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.bytes.arrays import Bools, Longs
from analytics.decode.arrow_columns import words
from analytics.decode.arrow_reading import elements, longs
from analytics.decode.lists import combinations
from analytics.derive.bucket_rows import BucketRows, few
from analytics.derive.loss import (
    ELR_FEATURE,
    UNCLEAN_ELECTION,
    Rules,
    falls_below_min_isr,
    is_leaderless,
    without_replica,
)
from analytics.derive.placed import Replicas, per_place, replicas_of
from analytics.store.questions import Questions
from analytics.tables import catalog as t
from analytics.tables.table import INT, LONG, STRING
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch
from jbodlab.image.partition_registration import PartitionRegistration

LOSSES = ("only_copies", "leaderless", "under_min_isr", "leaders_moved", "unclean")
LOST = pa.schema(
    [
        pa.field("broker", INT),
        pa.field("directory", STRING),
        pa.field("replicas", LONG),
        *(pa.field(name, LONG) for name in LOSSES),
    ]
)
"""What becomes of so many partitions if this directory of this broker fails."""

_ALWAYS_ONLINE = frozenset(
    kafka_uuid.to_text(each) for each in (directory_ids.MIGRATING, directory_ids.UNASSIGNED)
)
_LOST = kafka_uuid.to_text(directory_ids.LOST)
_SIGNED = (
    "isr",
    "eligible_leader_replicas",
    "last_known_elr",
    "adding_replicas",
    "removing_replicas",
)
_ALIVE, _LEADER, _PADDING = 1 << len(_SIGNED), 2 << len(_SIGNED), -1
_SOMEBODY = BrokerId(2**31 - 1)
"""Stands for a leader that is no replica."""


_PARTITIONS = f"""
    SELECT leader, replicas, directories, {", ".join(_SIGNED)},
      coalesce(min_insync_replicas, 1) AS min_isr,
      lower(trim(coalesce(own, of_all))) IS NOT DISTINCT FROM 'true' AS unclean
    FROM {{partitions}}
    LEFT JOIN (SELECT topic_id, min_insync_replicas FROM {{topics}}) USING (topic_id)
    LEFT JOIN (
      SELECT resource_name AS topic, value AS own FROM {{configs}}
      WHERE name = '{UNCLEAN_ELECTION}' AND valid_to_offset IS NULL AND resource_type = 'topic'
    ) USING (topic)
    CROSS JOIN (
      SELECT max(value) AS of_all FROM {{configs}}
      WHERE name = '{UNCLEAN_ELECTION}' AND valid_to_offset IS NULL
        AND resource_type = 'broker' AND resource_name = ''
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Who may lead at the end of the log."""

    directories: Mapping[int, frozenset[str]]
    """The online directories of brokers that are neither fenced nor stopping; empty for one that
    registered before directories were known."""
    has_elr: bool

    def may_lead(self, broker: int, directory: str | None) -> bool:
        """Return whether a replica there may lead."""
        online = self.directories.get(broker)
        if online is None or directory == _LOST:
            return False
        return not online or directory is None or directory in online | _ALWAYS_ONLINE


def what_if(questions: Questions, alive: Alive) -> pa.Table:
    """Return the table of what single failures would do: a row per directory and per broker.

    Args:
        questions: To the tables of facts.
        alive: Who may lead.
    """
    batches = questions.batches(_PARTITIONS)
    found = [losses(pa.Table.from_batches([batch]), alive) for batch in batches]
    questions.give("lost", pa.concat_tables([LOST.empty_table(), *found]))
    return questions.table(per_place(("replicas", *LOSSES), "lost"), t.WHAT_IF.schema)


def who_is_alive(rows: BucketRows) -> Alive:
    """Return who may lead; brokers and directories are few.

    Args:
        rows: Of the tables of facts.
    """
    brokers = few(rows, t.BROKERS, ("broker", "fenced", "in_controlled_shutdown", "log_dirs"))
    levels = few(rows, t.FEATURES, ("feature", "level", "valid_to_offset"))
    return Alive(
        directories={
            row["broker"]: frozenset(row["log_dirs"] or ())
            for row in brokers
            if not row["fenced"] and not row["in_controlled_shutdown"]
        },
        has_elr=any(
            row["level"] > 0
            for row in levels
            if row["feature"] == ELR_FEATURE and row["valid_to_offset"] is None
        ),
    )


def losses(partitions: pa.Table, alive: Alive) -> pa.Table:
    """Return what each replica of some partitions takes along, summed up by its place.

    Args:
        partitions: `leader`, `replicas`, `directories`, the lists of `_SIGNED`, `min_isr` and
            `unclean` of each.
        alive: Who may lead.

    Returns:
        Rows of LOST.
    """
    replicas = replicas_of(partitions)
    row, place = replicas.row, replicas.place
    size: Longs = np.bincount(row, minlength=len(partitions))
    codes: Longs = np.full((len(partitions), int(size.max(initial=0))), _PADDING, dtype=np.int64)
    codes[row, place] = _codes(partitions, replicas, alive)
    more = (
        np.minimum(longs(partitions.column("min_isr")), size),
        longs(partitions.column("unclean").cast(pa.int8())),
        (longs(partitions.column("leader")) != NO_LEADER).astype(np.int64),
    )
    kinds = combinations(*more, *codes.T)
    found = [
        _of_kind(
            codes[at, : size[at]].tolist(),
            min_isr=int(more[0][at]),
            unclean=bool(more[1][at]),
            has_leader=bool(more[2][at]),
            has_elr=alive.has_elr,
        )
        for at in kinds.rows.tolist()
    ]
    starts = np.cumsum([0, *map(len, found)])
    flat = np.array([flags for each in found for flags in each], dtype=np.int64)
    flags = flat.reshape(-1, len(LOSSES))[starts[kinds.codes[row]] + place]
    return _summed(replicas, flags)


def _codes(partitions: pa.Table, replicas: Replicas, alive: Alive) -> Longs:
    """Return what each replica is, a bit for each thing."""
    row, broker = replicas.row, replicas.broker
    own = row << 32 | (broker & 0xFFFFFFFF)
    codes: Longs = np.where(_may_lead(replicas, alive), _ALIVE, 0)
    codes |= np.where(longs(partitions.column("leader"))[row] == broker, _LEADER, 0)
    for bit, name in enumerate(_SIGNED):
        of_row, member = elements(partitions.column(name))
        codes |= np.isin(own, of_row << 32 | (member & 0xFFFFFFFF)).astype(np.int64) << bit
    return codes


def _may_lead(replicas: Replicas, alive: Alive) -> Bools:
    names = [*replicas.directory.texts, None]
    pairs = combinations(replicas.broker, replicas.directory.codes)
    able = [
        alive.may_lead(int(replicas.broker[at]), names[replicas.directory.codes[at]])
        for at in pairs.rows.tolist()
    ]
    return np.array(able, dtype=np.bool_)[pairs.codes]


def _of_kind(
    codes: list[int], *, min_isr: int, unclean: bool, has_leader: bool, has_elr: bool
) -> list[list[int]]:
    """Return what the loss of each replica of a partition does, in the order of LOSSES."""
    lists = {
        name: tuple(BrokerId(at) for at, code in enumerate(codes) if code >> bit & 1)
        for bit, name in enumerate(_SIGNED)
    }
    leaders = [BrokerId(at) for at, code in enumerate(codes) if code & _LEADER]
    leader = leaders[0] if leaders else _SOMEBODY if has_leader else NO_LEADER
    state = PartitionRegistration(
        replicas=tuple(map(BrokerId, range(len(codes)))),
        directories=(),
        isr=lists["isr"],
        removing_replicas=lists["removing_replicas"],
        adding_replicas=lists["adding_replicas"],
        leader=leader,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        elr=lists["eligible_leader_replicas"],
        last_known_elr=lists["last_known_elr"],
    )
    living = {at for at, code in enumerate(codes) if code & _ALIVE}
    found = []
    for lost in range(len(codes)):
        able = living - {lost}
        rules = Rules(
            may_lead=able.__contains__,
            min_isr=min_isr,
            has_elr=has_elr,
            unclean_election=unclean,
        )
        outcome = without_replica(state, BrokerId(lost), rules)
        is_moved = outcome.leader not in (state.leader, NO_LEADER)
        effects = (
            len(codes) == 1,
            is_leaderless(state, outcome),
            falls_below_min_isr(state, outcome, min_isr),
            is_moved,
            is_moved and outcome.is_unclean,
        )
        found.append([int(each) for each in effects])
    return found


def _summed(replicas: Replicas, flags: Longs) -> pa.Table:
    places = combinations(replicas.broker, replicas.directory.codes)
    size = len(places.rows)
    columns = {
        "broker": pa.array(replicas.broker[places.rows].astype(np.int32)),
        "directory": words(replicas.directory.codes[places.rows], replicas.directory.texts),
        "replicas": pa.array(np.bincount(places.codes, minlength=size)),
    }
    for at, name in enumerate(LOSSES):
        columns[name] = pa.array(np.bincount(places.codes[flags[:, at] > 0], minlength=size))
    arrays = [columns[field.name].cast(field.type) for field in LOST]
    return pa.Table.from_arrays(arrays, schema=LOST)
