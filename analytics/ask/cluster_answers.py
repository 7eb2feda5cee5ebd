"""Why a broker or a log directory is as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from analytics.ask.answer import (
    broker_change_text,
    chain,
    directory_text,
    event,
    link,
    moment,
    repair_text,
)
from analytics.ask.cluster import BrokerChange, Cluster
from analytics.ask.offline_log import At
from analytics.ask.partition_states import PartitionAt, partition_states
from analytics.engines.duck import DuckEngine
from analytics.errors import ReplayInputError
from jbodlab.picture.registered import state_text
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId

if TYPE_CHECKING:
    from jbodlab.cli.results import (
        HeldReplicas,
        Link,
        LogEvent,
        OwnerSince,
        WhyBroker,
        WhyDirectory,
    )

CHANGES_OF_A_SOUND_ONE = 5


def broker_answer(tables: DuckEngine, cluster: Cluster, at: At, text: str) -> WhyBroker:
    """Return the answer about a broker.

    Raises:
        ReplayInputError: it was never registered.
    """
    broker = _parse_broker(text)
    changes = cluster.changes.get(broker)
    if not changes:
        raise ReplayInputError(f"broker {broker} was never registered")
    registration = cluster.brokers.get(broker)
    sound = next(
        (n for n in reversed(range(len(changes))) if (now := changes[n].after) and now.active), 0
    )
    start = len(changes) - CHANGES_OF_A_SOUND_ONE if sound == len(changes) - 1 else sound
    directories = dict.fromkeys(
        one for change in changes if change.after for one in change.after.directories
    )
    online = () if registration is None else registration.directories
    offline = [one for one in directories if registration is not None and one not in online]
    repairs = [repair_text(registration, broker, one) for one in (None, *offline)]
    state, since = _state(changes)
    return {
        "kind": "broker",
        "name": text,
        "moment": moment(at),
        "state": state,
        "since": since,
        "broker_epoch": None if registration is None else registration.epoch,
        "incarnation_id": (
            None if registration is None else kafka_uuid.to_text(registration.incarnation_id)
        ),
        "directories": [
            {"directory": directory_text(one), "state": known, "since": since}
            for one in directories
            for known, since in [_directory_state(changes, one)]
        ],
        "replicas": _held(partition_states(tables, on_broker(text)), broker),
        "chain": chain(map(_link, changes[max(0, start) :])),
        "next": list(dict.fromkeys(filter(None, repairs))),
        "problems": [],
    }


def directory_answer(tables: DuckEngine, cluster: Cluster, at: At, text: str) -> WhyDirectory:
    """Return the answer about a log directory.

    Raises:
        ReplayInputError: the text is not an id, a reserved one, or one that nobody knows.
    """
    directory = _parse_directory(text)
    owners = sorted(
        broker
        for broker, changes in cluster.changes.items()
        if any(change.after and directory in change.after.directories for change in changes)
    )
    own = partition_states(tables, in_directory(text))
    if not owners and not own:
        raise ReplayInputError(f"directory {text} is known to no broker and to no partition")
    brokers: list[OwnerSince] = []
    for broker in owners:
        changes = cluster.changes[broker]
        here = [each for each in own if broker in each.state.replicas]
        here = [each for each in here if each.state.directory(broker) == directory]
        state, since = _state(changes)
        directory_state, directory_since = _directory_state(changes, directory)
        brokers.append(
            {
                "broker": broker,
                "state": state,
                "since": since,
                "directory_state": directory_state,
                "directory_since": directory_since,
                "replicas": _held(here, broker),
            }
        )
    repairs = [repair_text(cluster.brokers.get(one), one, directory) for one in owners]
    return {
        "kind": "directory",
        "name": text,
        "moment": moment(at),
        "brokers": brokers,
        "replicas": [each.name for each in own],
        "chain": chain(
            one for broker in owners for one in _directory_chain(cluster.changes[broker], directory)
        ),
        "next": list(filter(None, repairs)),
        "problems": [],
    }


def on_broker(text: str, of: str = "") -> str:
    """Return SQL for partitions with a replica on a broker.

    Raises:
        ReplayInputError: the text is none.
    """
    return f"list_contains({of}replicas, {_parse_broker(text)})"


def in_directory(text: str, of: str = "") -> str:
    """Return SQL for partitions with a replica in a directory.

    Raises:
        ReplayInputError: the text is none.
    """
    return f"list_contains({of}directories, '{kafka_uuid.to_text(_parse_directory(text))}')"


def _parse_broker(text: str) -> BrokerId:
    if not (text.isascii() and text.isdecimal()):
        raise ReplayInputError(f"expected the id of a broker, got {text!r}")
    return BrokerId(int(text))


def _parse_directory(text: str) -> DirectoryId:
    try:
        directory = DirectoryId(kafka_uuid.parse(text))
    except ValueError as error:
        raise ReplayInputError(f"expected the id of a directory, got {text!r}: {error}") from error
    if directory_ids.is_reserved(directory):
        name = directory_text(directory)
        raise ReplayInputError(f"{text} is the reserved id {name}, which names no directory")
    return directory


def _directory_chain(changes: Sequence[BrokerChange], directory: DirectoryId) -> list[Link]:
    """Return what happened since the directory came online before it was lost, or came last."""
    marks = [
        number
        for number, change in enumerate(changes)
        if directory in change.come_online or directory in change.gone_offline
    ]
    is_online = directory in changes[marks[-1]].come_online if marks else True
    # An offline one began with its last time online; an online one may have been offline before.
    wanted = 2 if is_online and len(marks) > 1 else 1
    start = marks[-wanted] if marks else 0
    if not is_online and len(marks) > 1:
        start = marks[-2]
    return [
        _link(change)
        for number, change in enumerate(changes)
        if number in marks[-3:] or (number >= start and _is_about_state(change))
    ]


def _is_about_state(change: BrokerChange) -> bool:
    return state_text(change.before) != state_text(change.after) or bool(
        change.gone_offline or change.come_online
    )


def _directory_state(
    changes: Sequence[BrokerChange], directory: DirectoryId
) -> tuple[str, LogEvent]:
    """Return the state of a directory, and the event that began it."""
    if changes[-1].after is None:
        return "gone with its broker", event(changes[-1].source)
    is_online = directory in changes[-1].after.directories
    since = _since(
        changes,
        lambda change: (
            change.after is not None and (directory in change.after.directories) == is_online
        ),
    )
    return "online" if is_online else "offline", since


def _held(own: Sequence[PartitionAt], broker: BrokerId) -> HeldReplicas:
    return {
        "placed": len(own),
        "leads": sum(each.state.leader == broker for each in own),
        "out_of_isr": [each.name for each in own if broker not in each.state.isr],
        "leaderless": [each.name for each in own if each.state.leader == NO_LEADER],
    }


def _state(changes: Sequence[BrokerChange]) -> tuple[str, LogEvent]:
    state = state_text(changes[-1].after)
    return state, _since(changes, lambda change: state_text(change.after) == state)


def _since(changes: Sequence[BrokerChange], holds: Callable[[BrokerChange], bool]) -> LogEvent:
    """Return the event since which something holds that holds after the last change."""
    *_, found = changes[-1], *takewhile(holds, reversed(changes))
    return event(found.source)


def _link(change: BrokerChange) -> Link:
    return link(change.source, broker_change_text(change))
