"""The answers, as text and as the values that JSON has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from jbodlab.cli.output import counted, table
from jbodlab.picture.cluster_picture import SERVING
from jbodlab.vocabulary.durations import duration_text
from jbodlab.vocabulary.sizes import size_text
from jbodlab.what_if.cluster import Cluster
from jbodlab.what_if.failure import Failure, PartitionEffect
from jbodlab.what_if.figures import copy_seconds
from jbodlab.what_if.losses import Loss, Losses
from jbodlab.what_if.moves import PartitionMove

if TYPE_CHECKING:
    from jbodlab.cli.results import FailureLoss, LossCounts, NamedDirectory, Removal, SaferMove
    from jbodlab.cli.results import Losses as AllLosses

LINES_MAX = 20
"""Of each table of all losses; JSON has every line."""
TARGETS_MAX = 4
"""Brokers that are named as those that leaders move to."""

_HEADS = (
    *("REPLICAS", "LAST COPIES", "LEADERLESS", "BELOW MIN ISR", "UNCLEAN", "LEADERS MOVE"),
    *("TO", "BYTES", "COPY AGAIN", "TAKES"),
)
_NO_TARGET = _HEADS.index("TO")


def rate_text(bytes_per_s: float) -> str:
    """Return a rate as the command line has it."""
    return f"{bytes_per_s / 1_000_000:g} MB/s"


def remarks(cluster: Cluster) -> list[str]:
    """Return what answers assume, and what they leave out."""
    assumed = [f"assumed: {cluster.assumed}"] if cluster.assumed else []
    return [*assumed, *_left_out(cluster)]


def _left_out(cluster: Cluster) -> list[str]:
    count = sum(one.undescribed for one in cluster.directories)
    of_undescribed = (
        f"{counted(count, 'replica')} of topics that are not described to this user, or "
        "that are being deleted: what happens to them is not known"
    )
    return [*([of_undescribed] if count else []), *cluster.notes]


def losses_value(cluster: Cluster, found: Losses, bytes_per_s: float) -> AllLosses:
    """Return all losses as JSON has them."""

    def directory(number: int) -> NamedDirectory:
        one = cluster.directories[number]
        return {
            "broker": one.broker,
            "log_dir": one.path or None,
            "directory_id": one.directory_id or None,
        }

    return {
        "moment": cluster.moment_value,
        "bytes_per_second": bytes_per_s,
        "directories": [
            {**directory(number), **loss_value(loss, bytes_per_s)}
            for number, loss in found.directories.items()
        ],
        "brokers": [
            {"broker": broker, **loss_value(loss, bytes_per_s)}
            for broker, loss in found.brokers.items()
        ],
        "racks": [
            {"rack": rack, **loss_value(loss, bytes_per_s)} for rack, loss in found.racks.items()
        ],
        "pairs": [
            {
                "directories": [directory(number) for number in pair],
                "same_rack": _same_rack(loss),
                "replicas": loss.replicas,
                "last_copies": loss.last_copies,
                "leaderless": loss.leaderless,
                "below_min_isr": loss.below_min_isr,
                "unclean": loss.unclean,
                "leaders_moved": loss.leaders_moved,
                "held_bytes": loss.held_bytes,
            }
            for pair, loss in found.pairs.items()
        ],
        "notes": remarks(cluster),
    }


def loss_value(loss: Loss, bytes_per_s: float) -> LossCounts:
    """Return one loss as JSON has it."""
    return {
        "racks": list(loss.racks),
        "takes_broker": loss.takes_broker,
        "replicas": loss.replicas,
        "last_copies": loss.last_copies,
        "leaderless": loss.leaderless,
        "below_min_isr": loss.below_min_isr,
        "unclean": loss.unclean,
        "leaders_moved": loss.leaders_moved,
        "undescribed": loss.undescribed,
        "leaders_moved_to": {str(broker): count for broker, count in sorted(loss.moved_to.items())},
        "held_bytes": loss.held_bytes,
        "copy_bytes": loss.copy_bytes,
        "copy_seconds": copy_seconds(loss, bytes_per_s),
    }


def losses_text(cluster: Cluster, found: Losses, bytes_per_s: float) -> str:
    """Return all losses as text, the worst of each kind first."""
    lines = [f"What a loss would take, {cluster.moment}; copies at {rate_text(bytes_per_s)}"]
    for head, some in (
        ("DIRECTORY", found.directories.values()),
        ("BROKER", found.brokers.values()),
        ("RACK", found.racks.values()),
    ):
        lines += _losses(head, list(some), bytes_per_s)
    pairs = list(found.pairs.values())
    if pairs:
        rows = [(one.name, _RACKS[_same_rack(one)], one.replicas, *one.counts) for one in pairs]
        heads = ("PAIR OF DIRECTORIES", "RACK", *_HEADS[:_NO_TARGET])
        lines += ["", table(heads, rows)]
    else:
        lines += ["", "No pair of directories of different brokers takes more than leaders"]
    lines += _closing(cluster)
    return "\n".join(lines)


_RACKS = {True: "same", False: "differ", None: "-"}


def _same_rack(loss: Loss) -> bool | None:
    return len(loss.racks) == 1 if loss.racks else None


def _losses(head: str, some: Sequence[Loss], bytes_per_s: float) -> list[str]:
    if not some:
        return []
    rows = []
    for one in some[:LINES_MAX]:
        seconds = copy_seconds(one, bytes_per_s)
        rows.append(
            (
                one.name,
                one.replicas,
                *one.counts,
                _targets(one.moved_to),
                size_text(one.held_bytes),
                size_text(one.copy_bytes),
                "-" if seconds is None else duration_text(seconds),
            )
        )
    lines = ["", table((head, *_HEADS), rows)]
    if len(some) > LINES_MAX:
        lines.append(f"and {len(some) - LINES_MAX} more; --output json has all")
    stopping = [one.name for one in some if one.takes_broker]
    if head == "DIRECTORY" and stopping:
        named = ", ".join(stopping[:LINES_MAX]) + (" ..." if len(stopping) > LINES_MAX else "")
        lines.append(f"a broker stops without its last directory or its metadata log: {named}")
    return lines


def _targets(moved_to: Mapping[int, int]) -> str:
    most = sorted(moved_to.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{broker}: {count}" for broker, count in most[:TARGETS_MAX])
    return (text or "-") + (" ..." if len(most) > TARGETS_MAX else "")


def failure_value(
    cluster: Cluster,
    failure: Failure,
    loss: Loss,
    found: Sequence[PartitionEffect],
    bytes_per_s: float,
) -> FailureLoss:
    """Return one failure as JSON has it."""
    return {
        "failure": failure.name,
        "moment": cluster.moment_value,
        **loss_value(loss, bytes_per_s),
        "partitions": [
            {
                "partition": each.partition.name,
                "leader": each.partition.leader,
                "leader_then": each.leader,
                "isr_then": list(each.isr),
                "min_insync_replicas": each.min_isr,
                "leaderless": each.effect.leaderless,
                "below_min_isr": each.effect.below_min_isr,
                "last_copy": each.effect.last_copy,
                "unclean": each.effect.unclean,
            }
            for each in found
        ],
        "notes": remarks(cluster),
    }


def failure_text(
    cluster: Cluster,
    failure: Failure,
    loss: Loss,
    found: Sequence[PartitionEffect],
    bytes_per_s: float,
) -> str:
    """Return what one failure does, partition by partition."""
    lines = [f"If {failure.name} failed, {cluster.moment}"]
    state = cluster.by_id[failure.broker].registration
    if state != SERVING:
        lines.append(f"  broker {failure.broker} is {state} already")
    lines.append(f"  replicas there          {len(found)}")
    if loss.copy_bytes is not None and loss.held_bytes is not None:
        seconds = copy_seconds(loss, bytes_per_s)
        assert seconds is not None
        lines.append(
            f"  bytes to copy again     {size_text(loss.copy_bytes)} of "
            f"{size_text(loss.held_bytes)}, {duration_text(seconds)} at {rate_text(bytes_per_s)}"
        )
    leaderless = [each for each in found if each.effect.leaderless]
    lines += _listed("without leader", leaderless, _nobody)
    last = [each for each in found if each.effect.last_copy]
    lines += _listed("last copies", last, lambda _: "no other replica has all of its records")
    below = [each for each in found if each.effect.below_min_isr]
    lines += _listed(
        "below min ISR",
        below,
        lambda each: (
            f"isr {list(each.partition.isr)} -> {list(each.isr)}, "
            f"min.insync.replicas {each.min_isr}"
        ),
    )
    moved = [each for each in found if each.effect.moves_leader]
    lines += _listed("led by another replica", moved, _moved)
    if loss.undescribed:
        lines.append(f"  of unknown topics       {counted(loss.undescribed, 'replica')}")
    if cluster.assumed:
        lines.append(f"  assumed                 {cluster.assumed}")
    lines += _left_out(cluster)
    return "\n".join(lines)


def _listed(
    title: str, some: Sequence[PartitionEffect], told: Callable[[PartitionEffect], str]
) -> list[str]:
    return [
        f"  {title:<22}  {len(some)}",
        *(f"    {each.partition.name}  {told(each)}" for each in some),
    ]


def _nobody(each: PartitionEffect) -> str:
    why = "; ".join(each.why_nobody) or "it has no other replica"
    return f"leader {each.partition.leader} -> none: {why}"


def _moved(each: PartitionEffect) -> str:
    warning = " (unclean: records may be lost)" if each.effect.unclean else ""
    return f"leader {each.partition.leader} -> {each.leader}{warning}"


def removal_text(
    cluster: Cluster,
    asked: str,
    failure: Failure,
    loss: Loss,
    found: Sequence[PartitionEffect],
) -> str:
    """Return whether a directory or a broker may be taken out now: yes, or no and why.

    Args:
        cluster: Where it is.
        asked: The object that shall be taken out, as the user named it.
        failure: The failure that follows: a broker may stop with its directory.
        loss: Effect of that loss.
        found: Fate of each partition.
    """
    what = asked
    if "/" in asked and failure.directory is None:
        what += f", with which broker {failure.broker} stops,"
    elif failure.is_offline:
        what += ", which is offline already,"
    if loss.is_harmless:
        stays = "nothing more is lost" if failure.is_offline else _ALL_STAYS
        return "\n".join([f"yes: without {what} {stays}", *remarks(cluster)])
    lines = [f"no: without {what} {counted(sum(map(_harms, found)), 'partition')} would suffer"]
    lines += [
        f"  {each.partition.name}  {'; '.join(_reasons(each))}" for each in found if _harms(each)
    ]
    if loss.undescribed:
        replicas = counted(loss.undescribed, "replica")
        lines.append(f"  it is not known what becomes of {replicas} of topics not described here")
    return "\n".join([*lines, *remarks(cluster)])


_ALL_STAYS = "every partition stays available and whole"


def removal_value(cluster: Cluster, loss: Loss, found: Sequence[PartitionEffect]) -> Removal:
    """Return the same as JSON has it."""
    return {
        "ok": loss.is_harmless,
        "undescribed": loss.undescribed,
        "partitions": [
            {"partition": each.partition.name, "reasons": _reasons(each)}
            for each in found
            if _harms(each)
        ],
        "notes": remarks(cluster),
    }


def _harms(each: PartitionEffect) -> bool:
    effect = each.effect
    return effect.last_copy or effect.leaderless or effect.below_min_isr or effect.unclean


def _reasons(each: PartitionEffect) -> list[str]:
    effect = each.effect
    reasons = []
    if effect.last_copy:
        reasons.append("no other replica has all of its records")
    if effect.leaderless:
        reasons.append("nobody could lead")
    if effect.below_min_isr:
        reasons.append(f"in sync would be {len(each.isr)} of at least {each.min_isr}")
    if effect.unclean:
        reasons.append(f"{each.leader} would lead and may lack records")
    return reasons


def moves_text(
    cluster: Cluster, planned: Sequence[PartitionMove], before: Losses, after: Losses, file: str
) -> str:
    """Return what a reassignment would change."""
    if not planned:
        return "\n".join(["no move would help", *remarks(cluster)])
    size = _sum(move.size_bytes for move in planned)
    lines = [f"{counted(len(planned), 'move')}, {size_text(size)}, in {file}"]
    rows = [(title, *_worst(one), *_worst(other)) for title, one, other in _compared(before, after)]
    names = ("LAST COPIES", "LEADERLESS", "BELOW MIN ISR")
    heads = ("WORST", *names, *(f"{name} THEN" for name in names))
    return "\n".join([*lines, "", table(heads, rows), *_closing(cluster)])


def _compared(before: Losses, after: Losses) -> list[tuple[str, list[Loss], list[Loss]]]:
    return [
        (title, list(getattr(before, name).values()), list(getattr(after, name).values()))
        for title, name in (
            *(("directory", "directories"), ("broker", "brokers")),
            *(("rack", "racks"), ("pair", "pairs")),
        )
    ]


def _worst(some: Sequence[Loss]) -> tuple[int, ...]:
    return some[0].counts[:3] if some else (0, 0, 0)


def moves_value(planned: Sequence[PartitionMove]) -> list[SaferMove]:
    """Return moves as JSON has them."""
    return [
        {
            "partition": move.partition.name,
            "replicas": list(move.partition.replicas),
            "bytes": move.size_bytes,
            "why": move.why,
        }
        for move in planned
    ]


def _sum(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return None if None in known else sum(size for size in known if size is not None)


def _closing(cluster: Cluster) -> list[str]:
    found = remarks(cluster)
    return ["", *found] if found else []
