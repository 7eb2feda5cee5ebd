"""Fate of the partitions if a directory or a broker failed at the end of the log.

The rule is `jbodlab.what_if.kinds`, which `jbodlab what-if` asks too. Partitions are taken together
that differ in nothing but who their replicas are: who of them leads, is in sync, eligible, alive,
coming or going, by their place in the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.tables.table import BOOLEAN, INT, LONG, list_of
from jbodlab.what_if.kinds import NOBODY, PartitionKind, effect

REPLICA_BITS = (
    "isr",
    "elr",
    "last_known_elr",
    "adding_replicas",
    "removing_replicas",
    "alive",
    "leader",
)
"""Meanings of the bits of a replica, from the lowest on."""

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
"""Effect of the loss of the replica at a place, from 1 on, on a partition of a kind."""


def kind_losses(kinds: pa.Table) -> pa.Table:
    """Return rows of KIND_LOSSES, one for each replica of each kind."""
    rows = [row for kind in kinds.to_pylist() for row in _rows(kind)]
    return pa.Table.from_pylist(rows, KIND_LOSSES)


def _rows(row: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    kind = _kind(row)
    for place in range(kind.replicas):
        found = effect(kind, (place,))
        effects = (
            kind.replicas == 1,
            found.leaderless,
            found.below_min_isr,
            found.moves_leader,
            found.unclean,
        )
        yield {**row, "place": place + 1, **dict(zip(LOSSES, effects, strict=True))}


def _kind(row: Mapping[str, Any]) -> PartitionKind:
    bits = row["bits"]
    leaders = _places(bits, "leader")
    leader = leaders.bit_length() - 1 if leaders else len(bits) if row["has_leader"] else NOBODY
    return PartitionKind(
        replicas=len(bits),
        leader=leader,
        isr=_places(bits, "isr"),
        alive=_places(bits, "alive"),
        min_isr=row["min_isr"],
        has_elr=row["has_elr"],
        unclean_election=row["is_unclean"],
        elr=_places(bits, "elr"),
        last_known_elr=_places(bits, "last_known_elr"),
        adding=_places(bits, "adding_replicas"),
        removing=_places(bits, "removing_replicas"),
    )


def _places(bits: Sequence[int], name: str) -> int:
    """Return the places of the replicas that are something, as bits."""
    bit = REPLICA_BITS.index(name)
    return sum((each >> bit & 1) << place for place, each in enumerate(bits))
