"""Parts of the answers of `jbodlab why`: JSON values, and the texts in them.

An event is the record that made something so: `offset`, `time` (ISO 8601 in UTC; null if it is not
known) and `type`, the name of the record type, or SNAPSHOT. The chain is events with a `text`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from analytics.ask.cluster import BrokerChange
from analytics.ask.offline_log import At, LogRecord, clock
from analytics.tables.table import SNAPSHOT_TYPE
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.records.cluster_records import RegisterBrokerRecord, UnregisterBrokerRecord
from jbodlab.picture.registered import state_text
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerId, DirectoryId

if TYPE_CHECKING:
    from jbodlab.cli.results import Link, LogEvent, LogMoment

_RESERVED = {
    directory_ids.MIGRATING: "MIGRATING",
    directory_ids.UNASSIGNED: "UNASSIGNED",
    directory_ids.LOST: "LOST",
}


def event(source: LogRecord) -> LogEvent:
    """Return the event that a record is."""
    return {"offset": source.offset, "time": _iso(source.time), "type": source.type}


def moment(at: At) -> LogMoment:
    """Return the moment of an answer."""
    return {"offset": at.offset, "time": _iso(at.time), "is_end": at.is_end}


def link(source: LogRecord, text: str) -> Link:
    """Return one link of a chain."""
    return {**event(source), "text": text}


def chain(links: Iterable[Link]) -> list[Link]:
    """Return links by offset, without repeats; of several about one record each is kept."""
    distinct = {(one["offset"], one["type"], one["text"]): one for one in links}
    return sorted(distinct.values(), key=lambda one: (one["offset"], one["type"] != SNAPSHOT_TYPE))


def repair_text(
    registration: BrokerRegistration | None, broker: BrokerId, directory: DirectoryId | None
) -> str | None:
    """Return how a replica comes online again, None if it is online."""
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


def broker_change_text(change: BrokerChange) -> str:
    """Return what a record did to a broker."""
    before, after = change.before, change.after
    if change.source.type == UnregisterBrokerRecord.NAME or after is None:
        return f"broker={change.broker} unregistered"
    parts = []
    if change.source.type in (RegisterBrokerRecord.NAME, SNAPSHOT_TYPE):
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


def _iso(time: datetime | None) -> str | None:
    return None if time is None else clock(time).replace(" ", "T")
