"""Named figures of losses: for conditions, and as metrics for alerts.

`last_copies` is the most that one directory takes, `broker.last_copies` the most that one broker
takes; likewise `rack.` and `pair.`. Of one failure there are those without a prefix alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jbodlab.pages.values import Unit, Value
from jbodlab.runtime.metrics import Declared, Labels, Metric, rows
from jbodlab.what_if.cluster import Cluster
from jbodlab.what_if.losses import COUNTS, Loss, Losses

SCOPES = ("", "broker.", "rack.", "pair.")
UNITS = {
    **dict.fromkeys((*COUNTS, "undescribed", "copy_bytes"), Unit.NUMBER),
    "copy_ms": Unit.DURATION,
}
KNOWN = {f"{scope}{name}": unit for scope in SCOPES for name, unit in UNITS.items()}
"""The units of the named figures."""

_MEANINGS = {
    "last_copies": "partitions of which the last replica with all acknowledged records is lost",
    "leaderless": "partitions that lose their leader and get no other",
    "below_min_isr": "partitions that fall below min.insync.replicas",
    "unclean": "partitions whose next leader may lack acknowledged records",
    "leaders_moved": "partitions that another replica leads",
    "undescribed": "replicas of topics that may not be described",
}
_SIZES = {
    "copy_bytes": "bytes to copy again",
    "copy_seconds": "time to copy again at the given rate",
}
DECLARED = {
    f"jbodlab_what_if_{scope}_{name}": Declared(
        scope, "gauge", f"{meaning}, if this {scope} were lost"
    )
    for scope in ("directory", "broker", "rack", "pair")
    for name, meaning in {**_MEANINGS, **_SIZES}.items()
}
"""Labels, kinds and meanings of the metrics."""


def copy_seconds(loss: Loss, bytes_per_s: float) -> float | None:
    """Return how long it takes to copy again what is lost; None where sizes are not known."""
    return None if loss.copy_bytes is None else loss.copy_bytes / bytes_per_s


def named(found: Losses, bytes_per_s: float) -> dict[str, Value]:
    """Return the named figures of all losses."""
    scopes: tuple[Iterable[Loss], ...] = (
        found.directories.values(),
        found.brokers.values(),
        found.racks.values(),
        found.pairs.values(),
    )
    return {
        f"{scope}{name}": value
        for scope, some in zip(SCOPES, scopes, strict=True)
        for name, value in _most(list(some), bytes_per_s).items()
    }


def named_of_one(loss: Loss, bytes_per_s: float) -> dict[str, Value]:
    """Return the named figures of one failure; the others are unknown."""
    return {**dict.fromkeys(KNOWN), **_most([loss], bytes_per_s)}


def metrics(cluster: Cluster, found: Losses, bytes_per_s: float) -> Iterator[Metric]:
    """Yield all losses as metrics, each with a value for each that may be lost."""
    directories: list[tuple[Labels, Loss]] = []
    for number, loss in found.directories.items():
        one = cluster.directories[number]
        name = {"log_dir": one.path} if one.path else {"directory_id": one.directory_id}
        directories.append(({"broker": str(one.broker), **name}, loss))
    pairs: list[tuple[Labels, Loss]] = []
    for (first, second), loss in found.pairs.items():
        names = cluster.directories[first].name, cluster.directories[second].name
        pairs.append(({"first": names[0], "second": names[1]}, loss))
    yield from _metrics("directory", directories, bytes_per_s)
    yield from _metrics(
        "broker", [({"broker": str(key)}, one) for key, one in found.brokers.items()], bytes_per_s
    )
    yield from _metrics(
        "rack", [({"rack": key}, one) for key, one in found.racks.items()], bytes_per_s
    )
    yield from _metrics("pair", pairs, None)


def _metrics(
    scope: str, items: list[tuple[Labels, Loss]], bytes_per_s: float | None
) -> Iterator[Metric]:
    if not items:
        return
    yield from rows(items, {f"jbodlab_what_if_{scope}_{name}": _reader(name) for name in _MEANINGS})
    sized = [(labels, loss) for labels, loss in items if loss.copy_bytes is not None]
    if sized and bytes_per_s is not None:
        yield from rows(
            sized,
            {
                f"jbodlab_what_if_{scope}_copy_bytes": lambda loss: loss.copy_bytes or 0,
                f"jbodlab_what_if_{scope}_copy_seconds": lambda loss: (
                    (loss.copy_bytes or 0) / bytes_per_s
                ),
            },
        )


def _reader(name: str) -> Callable[[Loss], float]:
    def read(loss: Loss) -> float:
        return float(getattr(loss, name))

    return read


def _most(some: list[Loss], bytes_per_s: float) -> dict[str, Value]:
    sizes = [one.copy_bytes for one in some if one.copy_bytes is not None]
    found: dict[str, Value] = {
        name: max((getattr(one, name) for one in some), default=0)
        for name in (*COUNTS, "undescribed")
    }
    most = max(sizes, default=None)
    found["copy_bytes"] = most
    found["copy_ms"] = None if most is None else most / bytes_per_s * 1000
    return found
