"""Lines of an answer: one per record, with offset, time, type and the fields that matter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analytics.ask.cluster import BrokerChange
from analytics.ask.offline_log import At, LogRecord, clock
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import BrokerId, DirectoryId
from jbodlab.image.broker_registration import BrokerRegistration
from jbodlab.records.cluster_records import RegisterBrokerRecord, UnregisterBrokerRecord

MAX_LINES = 40
"""Of a chain; of a longer one the middle is left out."""
MAX_NAMES = 20
"""Partitions that are listed by name."""

_RESERVED = {
    directory_ids.MIGRATING: "MIGRATING",
    directory_ids.UNASSIGNED: "UNASSIGNED",
    directory_ids.LOST: "LOST",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLine:
    """One record of the chain."""

    source: LogRecord
    text: str


def chain_text(lines: Iterable[ChainLine]) -> list[str]:
    """Return the lines of a chain by offset; of several about one record each is kept."""
    ordered = sorted(set_of(lines), key=_order)
    texts = [
        f"  offset {line.source.offset}  {clock(line.source.time)}  {line.source.type}  {line.text}"
        for line in ordered
    ]
    if len(texts) <= MAX_LINES:
        return texts
    half = MAX_LINES // 2
    left_out = f"  ... {len(texts) - 2 * half} more records ..."
    return [*texts[:half], left_out, *texts[-half:]]


def set_of(lines: Iterable[ChainLine]) -> list[ChainLine]:
    """Return lines without repeats."""
    found = {(line.source.offset, line.source.type, line.text): line for line in lines}
    return list(found.values())


def directory_text(directory: DirectoryId) -> str:
    """Return the text of a directory id; of a reserved one its name."""
    return _RESERVED.get(directory) or kafka_uuid.to_text(directory)


def brokers_text(brokers: Iterable[BrokerId]) -> str:
    """Return a list of brokers as `[1, 2]`."""
    return f"[{', '.join(map(str, brokers))}]"


def names_text(names: Sequence[str]) -> str:
    """Return some names; of many, how many more there are."""
    shown = ", ".join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def broker_change_text(change: BrokerChange) -> str:
    """Return what a record did to a broker."""
    before, after = change.before, change.after
    parts = [f"broker={change.broker}"]
    if isinstance(change.source.record, UnregisterBrokerRecord) or after is None:
        return f"{parts[0]} unregistered"
    if isinstance(change.source.record, RegisterBrokerRecord):
        again = before is not None and before.incarnation_id == after.incarnation_id
        what = "registered again" if again else "registered"
        parts.append(
            f"{what} epoch={after.epoch} incarnation={kafka_uuid.to_text(after.incarnation_id)}"
        )
        parts.append(state_text(after))
    elif before is not None and state_text(before) != state_text(after):
        parts.append(f"{state_text(before)} -> {state_text(after)}")
    parts += (f"directory {directory_text(each)} went offline" for each in change.gone_offline)
    if before is not None:
        parts += (f"directory {directory_text(each)} came online" for each in change.come_online)
    elif after.directories:
        parts.append(f"log_dirs=[{', '.join(map(directory_text, after.directories))}]")
    if before is not None and before.cordoned_directories != after.cordoned_directories:
        cordoned = after.cordoned_directories or ()
        parts.append(f"cordoned_log_dirs=[{', '.join(map(directory_text, cordoned))}]")
    return parts[0] if len(parts) == 1 else f"{parts[0]} {', '.join(parts[1:])}"


def moment_text(at: At) -> str:
    """Return the moment of an answer."""
    where = f"offset {at.offset}, {clock(at.time)}"
    return f"at the end of the log ({where})" if at.is_end else f"at {where}"


def state_text(registration: BrokerRegistration | None) -> str:
    """Return what a registration amounts to."""
    if registration is None:
        return "unregistered"
    if registration.fenced:
        return "fenced"
    return "in controlled shutdown" if registration.in_controlled_shutdown else "unfenced"


def _order(line: ChainLine) -> tuple[int, bool]:
    return line.source.offset, line.source.type != "SNAPSHOT"
