"""What would become of the partitions if a directory or a broker failed at the end of the log.

The rule is `derive.loss`, partition by partition, as `jbodlab what-if` asks it for one failure.
For all of them at once, partitions are taken together that differ in nothing but who their replicas
are: who of them leads, is in sync, eligible, alive, coming or going, by their place in the list.
There are few such kinds, however many partitions there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.derive.loss import (
    Rules,
    falls_below_min_isr,
    is_leaderless,
    without_replica,
)
from analytics.tables.table import BOOLEAN, INT, LONG, list_of
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch

REPLICA_BITS = (
    "isr",
    "elr",
    "last_known_elr",
    "adding_replicas",
    "removing_replicas",
    "alive",
    "leader",
)
"""What a replica is, from the lowest bit on."""

KIND = (
    pa.field("bits", list_of(INT)),
    pa.field("has_leader", BOOLEAN),
    pa.field("min_isr", LONG),
    pa.field("is_unclean", BOOLEAN),
    pa.field("has_elr", BOOLEAN),
)
LOSSES = ("only_copies", "leaderless", "under_min_isr", "leaders_moved", "unclean")
KIND_LOSSES = pa.schema(
    [*KIND, pa.field("place", LONG), *(pa.field(name, BOOLEAN) for name in LOSSES)]
)
"""What the loss of the replica at a place, from 1 on, does to a partition of a kind."""

_SOMEBODY = BrokerId(2**31 - 1)
"""Stands for a leader that is no replica."""


def kind_losses(kinds: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of KIND_LOSSES, one for each replica of each kind.

    Args:
        kinds: Rows with the columns of KIND.
    """
    return pa.Table.from_pylist([row for kind in kinds for row in _rows(kind)], KIND_LOSSES)


def _rows(kind: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    state, living = _state(kind), _members(kind, "alive")
    for place in state.replicas:
        able = {broker for broker in living if broker != place}
        rules = Rules(
            may_lead=able.__contains__,
            min_isr=kind["min_isr"],
            has_elr=kind["has_elr"],
            unclean_election=kind["is_unclean"],
        )
        outcome = without_replica(state, place, rules)
        is_moved = outcome.leader not in (state.leader, NO_LEADER)
        effects = (
            len(state.replicas) == 1,
            is_leaderless(state, outcome),
            falls_below_min_isr(state, outcome, kind["min_isr"]),
            is_moved,
            is_moved and outcome.is_unclean,
        )
        yield {**kind, "place": place, **dict(zip(LOSSES, effects, strict=True))}


def _state(kind: Mapping[str, Any]) -> PartitionRegistration:
    """Return a partition whose brokers are numbered by their places."""
    leaders = _members(kind, "leader")
    return PartitionRegistration(
        replicas=tuple(BrokerId(at) for at in range(1, 1 + len(kind["bits"]))),
        directories=(),
        isr=_members(kind, "isr"),
        removing_replicas=_members(kind, "removing_replicas"),
        adding_replicas=_members(kind, "adding_replicas"),
        leader=leaders[0] if leaders else _SOMEBODY if kind["has_leader"] else NO_LEADER,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(0),
        elr=_members(kind, "elr"),
        last_known_elr=_members(kind, "last_known_elr"),
    )


def _members(kind: Mapping[str, Any], name: str) -> tuple[BrokerId, ...]:
    bit = REPLICA_BITS.index(name)
    return tuple(BrokerId(at) for at, bits in enumerate(kind["bits"], 1) if bits >> bit & 1)
