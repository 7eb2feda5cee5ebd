"""Parts of the answers of `jbodlab why`: JSON values, and the lines that a terminal shows of them.

An event is the record that made something so: `offset`, `time` (ISO 8601 in UTC; null if it is not
known) and `type`, the name of the record type, or SNAPSHOT. The chain is events with a `text`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from analytics.ask.cluster import BrokerChange
from analytics.ask.offline_log import At, LogRecord, clock
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import BrokerId, DirectoryId
from jbodlab.image.broker_registration import BrokerRegistration
from jbodlab.records.cluster_records import RegisterBrokerRecord, UnregisterBrokerRecord

Json = dict[str, Any]

MAX_LINES = 40
"""Of a chain; of a longer one the text leaves out the middle."""
MAX_NAMES = 20
"""Partitions that the text lists by name."""

_RESERVED = {
    directory_ids.MIGRATING: "MIGRATING",
    directory_ids.UNASSIGNED: "UNASSIGNED",
    directory_ids.LOST: "LOST",
}


def event(source: LogRecord) -> Json:
    """Return the event that a record is."""
    time = None if source.time is None else clock(source.time).replace(" ", "T")
    return {"offset": source.offset, "time": time, "type": source.type}


def moment(at: At) -> Json:
    """Return the moment of an answer."""
    time = None if at.time is None else clock(at.time).replace(" ", "T")
    return {"offset": at.offset, "time": time, "is_end": at.is_end}


def link(source: LogRecord, text: str) -> Json:
    """Return one link of a chain."""
    return {**event(source), "text": text}


def chain(links: Iterable[Json]) -> list[Json]:
    """Return links by offset, without repeats; of several about one record each is kept."""
    distinct = {(one["offset"], one["type"], one["text"]): one for one in links}
    return sorted(distinct.values(), key=lambda one: (one["offset"], one["type"] != "SNAPSHOT"))


def when(one: Json) -> str:
    """Return offset and time of an event or a moment."""
    return f"offset {one['offset']} {_clock(one)}"


def since_text(one: Json) -> str:
    """Return since when something holds."""
    return f"since {when(one)}"


def moment_text(one: Json) -> str:
    """Return the moment of an answer as text."""
    where = f"offset {one['offset']}, {_clock(one)}"
    return f"at the end of the log ({where})" if one["is_end"] else f"at {where}"


def closing_lines(answer: Json) -> list[str]:
    """Return the lines of the chain, and of what to do next."""
    texts = [
        f"  offset {one['offset']}  {_clock(one)}  {one['type']}  {one['text']}"
        for one in answer["chain"]
    ]
    if len(texts) > MAX_LINES:
        half = MAX_LINES // 2
        left_out = f"  ... {len(texts) - 2 * half} more records ..."
        texts = [*texts[:half], left_out, *texts[-half:]]
    following = [f"  {text}" for text in answer["next"]]
    return [
        *(["Chain", *texts] if texts else []),
        *(["Next", *following] if following else []),
    ]


def repair_text(
    registration: BrokerRegistration | None, broker: BrokerId, directory: DirectoryId | None
) -> str | None:
    """Return how a replica comes online again, None if it is online.

    Args:
        registration: The broker of the replica.
        broker: Its id.
        directory: The directory of the replica; None if it does not matter.
    """
    if registration is None:
        return f"start broker {broker}, or reassign its replicas: it is not registered"
    if registration.fenced:
        return f"start broker {broker}, or see in its log why it sends no heartbeats"
    if registration.in_controlled_shutdown:
        return f"start broker {broker} again after its controlled shutdown"
    if directory is None or registration.directory_is_online(directory):
        return None
    return (
        f"repair or replace directory {directory_text(directory)} of broker {broker} and restart "
        "the broker"
    )


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
    if isinstance(change.source.record, UnregisterBrokerRecord) or after is None:
        return f"broker={change.broker} unregistered"
    parts = []
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
    return " ".join([f"broker={change.broker}", ", ".join(parts)]).rstrip()


def state_text(registration: BrokerRegistration | None) -> str:
    """Return the state of a broker that a registration says."""
    if registration is None:
        return "unregistered"
    if registration.fenced:
        return "fenced"
    return "in controlled shutdown" if registration.in_controlled_shutdown else "unfenced"


def _clock(one: Json) -> str:
    return "unknown time" if one["time"] is None else str(one["time"]).replace("T", " ")
