"""The table that `--describe --table` prints: directories first, then the moves under way.

    BROKER  LOG DIR  DIRECTORY ID            STATE      USED     FREE    TOTAL  ...
    1       /mnt/d1  b4d9ExdORgaQq38CyHwWTA  ONLINE  1.2 GiB  8.8 GiB 10.0 GiB  ...

    MOVE   BROKER  FROM     TO       PROGRESS
    foo-1  1       /mnt/d2  /mnt/d1  [#####---------------]  25%  1.0 MiB of 4.0 MiB, ...

A move of a compacted log says so: there is no compaction of it until it has moved.

USED, FREE and TOTAL are those of the file system, DATA the sum of the replicas; FUTURE counts the
copies that moves build.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from admin_tool.errors import name_of
from admin_tool.requests.dir_details import DirDetail
from admin_tool.requests.log_dirs import HeldReplica, LogDir
from jbodlab.error_code import ErrorCode

UNKNOWN = "-"
PAUSED = ", compaction paused"
"""A log that moves is not compacted meanwhile: it grows, the more the longer that takes."""

BAR_WIDTH = 20
COLUMN_GAP = "  "
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDirs:
    """The directories of one broker.

    Attributes:
        details: By path; without those of Apache Kafka's brokers, which do not tell them.
        problem: Why nothing else is known; None where something is.
    """

    broker: int
    log_dirs: tuple[LogDir, ...] = ()
    details: Mapping[str, DirDetail] = field(default_factory=dict)
    problem: str | None = None


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


def moves(brokers: Sequence[BrokerDirs], topics: Collection[str] = ()) -> list[Move]:
    """Return the moves under way, by broker and partition."""
    found = []
    for one in brokers:
        current = {
            (held.topic, held.partition): (log_dir.path, held)
            for log_dir in one.log_dirs
            for held in _shown(log_dir, topics)
            if not held.is_future
        }
        for log_dir in one.log_dirs:
            for held in _shown(log_dir, topics):
                if not held.is_future:
                    continue
                source = current.get((held.topic, held.partition))
                found.append(
                    Move(
                        broker=one.broker,
                        topic=held.topic,
                        partition=held.partition,
                        source=source[0] if source else None,
                        target=log_dir.path,
                        copied_bytes=held.size_bytes,
                        total_bytes=source[1].size_bytes if source else -1,
                        offset_lag=held.offset_lag,
                    )
                )
    return sorted(found, key=lambda move: (move.broker, move.topic, move.partition))


def render(
    brokers: Sequence[BrokerDirs],
    topics: Collection[str] = (),
    rates: Mapping[tuple[int, str, str], float] | None = None,
    compacted: Collection[str] = (),
) -> str:
    """Return the table.

    Args:
        brokers: In the order to print.
        topics: Whose replicas count; empty means all.
        rates: Bytes per second of moves, by broker, partition and target; what is missing is not
            shown.
        compacted: Those topics that are compacted.
    """
    rows = [row for one in brokers for row in _rows(one, topics)]
    heads = ("BROKER", "LOG DIR", "DIRECTORY ID", "STATE", "USED", "FREE", "TOTAL", "DATA")
    lines = columns([(*heads, "REPLICAS", "FUTURE"), *rows], right=range(4, 10))
    for one in brokers:
        if one.problem is not None:
            lines.append(f"broker {one.broker}: {one.problem}")
        lines.extend(
            f"broker {one.broker}: {path}: {detail.cause}"
            for path, detail in one.details.items()
            if detail.cause
        )
    under_way = moves(brokers, topics)
    if under_way:
        known = rates or {}
        cells = [
            (
                move.name,
                str(move.broker),
                move.source or UNKNOWN,
                move.target,
                progress(move, known.get((move.broker, move.name, move.target)))
                + (PAUSED if move.topic in compacted else ""),
            )
            for move in under_way
        ]
        lines.append("")
        lines.extend(columns([("MOVE", "BROKER", "FROM", "TO", "PROGRESS"), *cells]))
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


def size_text(size_bytes: int) -> str:
    """Return a size for people, with binary units; `-` where it is not known."""
    if size_bytes < 0:
        return UNKNOWN
    size = float(size_bytes)
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return (
        f"{size:.0f} {_UNITS[unit]}" if unit == 0 or size >= 100 else f"{size:.1f} {_UNITS[unit]}"
    )


def state_of(log_dir: LogDir, detail: DirDetail | None) -> str:
    """Return the state of a directory: ONLINE, OFFLINE, or what is wrong with an online one."""
    if log_dir.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
        return "OFFLINE"
    if log_dir.error_code:
        return f"ERROR {name_of(log_dir.error_code)}"
    words = [*(detail.conditions if detail is not None else ())]
    if log_dir.is_cordoned:
        words.append("CORDONED")
    return "+".join(words) or "ONLINE"


def _rows(one: BrokerDirs, topics: Collection[str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for log_dir in sorted(one.log_dirs, key=lambda log_dir: log_dir.path):
        detail = one.details.get(log_dir.path)
        held = _shown(log_dir, topics)
        used_bytes = -1
        if min(log_dir.total_bytes, log_dir.usable_bytes) >= 0:
            used_bytes = log_dir.total_bytes - log_dir.usable_bytes
        future = sum(replica.is_future for replica in held)
        offline = log_dir.error_code != 0
        rows.append(
            (
                str(one.broker),
                log_dir.path,
                (detail.directory_id if detail is not None else "") or UNKNOWN,
                state_of(log_dir, detail),
                size_text(used_bytes),
                size_text(log_dir.usable_bytes),
                size_text(log_dir.total_bytes),
                UNKNOWN if offline else size_text(sum(replica.size_bytes for replica in held)),
                UNKNOWN if offline else str(len(held) - future),
                UNKNOWN if offline else str(future),
            )
        )
    return rows


def _shown(log_dir: LogDir, topics: Collection[str]) -> list[HeldReplica]:
    return [one for one in log_dir.replicas if not topics or one.topic in topics]


def columns(rows: Sequence[tuple[str, ...]], right: Collection[int] = ()) -> list[str]:
    """Return rows with columns of equal width.

    Args:
        rows: The head first; all of one length.
        right: Columns whose cells stand at the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        COLUMN_GAP.join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
