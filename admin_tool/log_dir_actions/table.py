"""Output of `jbodlab dirs list`: directories first, then the moves under way.

Used, free and total bytes are those of the file system; data bytes are the sum of the replicas;
future replicas are the copies that moves build.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbodlab.cli.output import table
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.sizes import size_text

if TYPE_CHECKING:
    from jbodlab.cli.results import Directories, ListedDirectory

BAR_WIDTH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDirs:
    """The directories of one broker."""

    broker: int
    log_dirs: tuple[DescribedLogDir, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move of a replica between two directories of a broker.

    Attributes:
        source: None where the replica's current directory is not to be seen.
        copied_bytes: Size of the copy so far.
        total_bytes: Size of what is copied; -1 where it is not known.
        offset_lag: Offsets still to copy.
    """

    broker: int
    topic: str
    partition: int
    source: str | None
    target: str
    copied_bytes: int
    total_bytes: int
    offset_lag: int

    @property
    def name(self) -> str:
        """The partition."""
        return f"{self.topic}-{self.partition}"


def moves(brokers: Sequence[BrokerDirs]) -> list[Move]:
    """Return the moves under way, by broker and partition."""
    found = []
    for one in brokers:
        current = {
            name: (log_dir.path, held.size_bytes)
            for log_dir in one.log_dirs
            for name, held in log_dir.current.items()
        }
        for log_dir in one.log_dirs:
            for name, held in log_dir.future.items():
                source, total_bytes = current.get(name, (None, -1))
                found.append(
                    Move(
                        broker=one.broker,
                        topic=held.topic,
                        partition=held.partition,
                        source=source,
                        target=log_dir.path,
                        copied_bytes=held.size_bytes,
                        total_bytes=total_bytes,
                        offset_lag=held.offset_lag,
                    )
                )
    return sorted(found, key=lambda move: (move.broker, move.topic, move.partition))


def as_value(brokers: Sequence[BrokerDirs], compacted: Collection[str] = ()) -> Directories:
    """Return what `--output json` prints; sizes that a broker does not tell are None; pure.

    Args:
        brokers: In the order to print.
        compacted: Those topics that are compacted: a log that moves is not compacted meanwhile, and
            grows the more the longer that takes.
    """
    return {
        "directories": [
            _dir_value(one, number, log_dir)
            for one in brokers
            for number, log_dir in enumerate(one.log_dirs, 1)
        ],
        "moves": [
            {
                "partition": move.name,
                "broker": move.broker,
                "source": move.source,
                "target": move.target,
                "copied_bytes": move.copied_bytes,
                "total_bytes": None if move.total_bytes < 0 else move.total_bytes,
                "offset_lag": move.offset_lag,
                "compaction_paused": move.topic in compacted,
            }
            for move in moves(brokers)
        ],
    }


def render(
    brokers: Sequence[BrokerDirs],
    rates: Mapping[tuple[int, str, str], float] | None = None,
    compacted: Collection[str] = (),
) -> str:
    """Return the tables of directories and moves, and the causes of failures; pure.

    Args:
        brokers: In the order to print.
        rates: Bytes per second of moves, by broker, partition and target; rates that are missing
            are not shown.
        compacted: Those topics that are compacted.
    """
    found = as_value(brokers)["directories"]
    rows = [
        (
            f"broker-{one['broker']}/{one['number']}",
            one["path"],
            one["state"],
            *map(
                size_text,
                (one["used_bytes"], one["free_bytes"], one["total_bytes"], one["data_bytes"]),
            ),
            one["replicas"],
            one["future_replicas"],
            one["id"],
        )
        for one in found
    ]
    heads = ("DIR", "PATH", "STATE", "USED", "FREE", "TOTAL", "DATA", "REPLICAS", "FUTURE", "ID")
    lines = [table(heads, rows)]
    lines += [
        f"broker-{one['broker']}/{one['number']}: {one['cause']}" for one in found if one["cause"]
    ]
    under_way = moves(brokers)
    if under_way:
        known = rates or {}
        cells = [
            (
                move.name,
                f"broker {move.broker}",
                move.source,
                move.target,
                progress(move, known.get((move.broker, move.name, move.target)))
                + (", compaction paused" if move.topic in compacted else ""),
            )
            for move in under_way
        ]
        lines += ["", table(("MOVE", "BROKER", "FROM", "TO", "PROGRESS"), cells)]
    return "\n".join(lines)


def progress(move: Move, rate: float | None = None) -> str:
    """Return the bar of a move, its numbers, and what is known of its speed in bytes/s."""
    if move.total_bytes < 0:
        return f"{size_text(move.copied_bytes)} copied"
    # The last bytes may be there while the copy is not in use yet; 100 % is a move that is gone.
    share = min(move.copied_bytes / move.total_bytes, 0.99) if move.total_bytes else 0.99
    filled = int(share * BAR_WIDTH)
    bar = "#" * filled + "-" * (BAR_WIDTH - filled)
    copied, total = size_text(move.copied_bytes), size_text(move.total_bytes)
    text = f"[{bar}] {int(share * 100):3d}%  {copied} of {total}, {move.offset_lag} offsets behind"
    if rate is not None:
        text += f", {size_text(int(rate))}/s"
        if rate > 0:
            left_s = max(move.total_bytes - move.copied_bytes, 0) / rate
            text += f", {left_s:.0f} s left"
    return text


def state_of(log_dir: DescribedLogDir) -> str:
    """Return the state of a directory: ONLINE, OFFLINE, or what is wrong with an online one."""
    if log_dir.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
        return "OFFLINE"
    if log_dir.error_code:
        return f"ERROR {log_dir.error}"
    words = [*log_dir.troubles, *(["CORDONED"] if log_dir.is_cordoned else [])]
    return "+".join(words) or "ONLINE"


def _dir_value(one: BrokerDirs, number: int, log_dir: DescribedLogDir) -> ListedDirectory:
    future = sum(replica.is_future for replica in log_dir.replicas)
    is_online = not log_dir.error_code
    knows_space = min(log_dir.total_bytes, log_dir.usable_bytes) >= 0
    return {
        "broker": one.broker,
        "number": number,
        "path": log_dir.path,
        "id": log_dir.directory_id or None,
        "state": state_of(log_dir),
        "cause": log_dir.cause or None,
        "used_bytes": log_dir.total_bytes - log_dir.usable_bytes if knows_space else None,
        "free_bytes": log_dir.usable_bytes if knows_space else None,
        "total_bytes": log_dir.total_bytes if knows_space else None,
        "data_bytes": sum(one.size_bytes for one in log_dir.replicas) if is_online else None,
        "replicas": len(log_dir.replicas) - future if is_online else None,
        "future_replicas": future if is_online else None,
    }
