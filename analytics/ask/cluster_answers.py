"""Why a broker or a log directory is as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from analytics.ask.cluster import BrokerChange, Cluster
from analytics.ask.offline_log import At, clock
from analytics.ask.partition_states import PartitionAt
from analytics.ask.text import (
    ChainLine,
    broker_change_text,
    chain_text,
    directory_text,
    moment_text,
    names_text,
    state_text,
)
from analytics.errors import ReplayInputError
from jbodlab import directory_id as directory_ids
from jbodlab import kafka_uuid
from jbodlab.ids import NO_LEADER, BrokerId, DirectoryId

CHANGES_OF_A_SOUND_ONE = 5


def broker_answer(
    cluster: Cluster, partitions: Sequence[PartitionAt], at: At, text: str
) -> list[str]:
    """Return the lines of the answer about a broker.

    Raises:
        ReplayInputError: it was never registered.
    """
    if not (text.isascii() and text.isdecimal()):
        raise ReplayInputError(f"expected the id of a broker, got {text!r}")
    broker = BrokerId(int(text))
    changes = cluster.changes.get(broker)
    if not changes:
        raise ReplayInputError(f"broker {broker} was never registered")
    registration = cluster.brokers.get(broker)
    lines = [f"broker {broker}, {moment_text(at)}", f"  state     {_state_since(changes)}"]
    if registration is not None:
        lines.append(
            f"  session   epoch {registration.epoch}, incarnation "
            f"{kafka_uuid.to_text(registration.incarnation_id)}"
        )
    lines += (
        f"  directory {directory_text(directory)} {_online(changes, directory)}"
        for directory in _directories(changes)
    )
    own = [each for each in partitions if broker in each.state.replicas]
    lines += _held(own, broker)
    sound = _last_index(changes, lambda change: change.after is not None and change.after.active)
    start = len(changes) - CHANGES_OF_A_SOUND_ONE if sound == len(changes) - 1 else sound
    chain = [_line(change) for change in changes[max(0, start) :]]
    return [*lines, "Chain", *chain_text(chain)]


def directory_answer(
    cluster: Cluster, partitions: Sequence[PartitionAt], at: At, text: str
) -> list[str]:
    """Return the lines of the answer about a log directory.

    Raises:
        ReplayInputError: it is no id, a reserved one, or one that nobody knows.
    """
    directory = parse_directory(text)
    owners = [
        broker
        for broker, changes in cluster.changes.items()
        if any(change.after and directory in change.after.directories for change in changes)
    ]
    own = [each for each in partitions if directory in each.state.directories]
    if not owners and not own:
        raise ReplayInputError(f"directory {text} is known to no broker and to no partition")
    lines = [f"directory {text}, {moment_text(at)}"]
    chain: list[ChainLine] = []
    if not owners:
        lines.append("  state     unknown: no broker has registered it")
        lines.append(f"  replicas  {len(own)} placed there: {_names(own)}")
        return lines
    for broker in sorted(owners):
        changes = cluster.changes[broker]
        lines.append(f"  state     {_online(changes, directory)}")
        lines.append(f"  broker    {broker}, {_state_since(changes)}")
        here = [each for each in own if broker in each.state.replicas]
        here = [each for each in here if each.state.directory(broker) == directory]
        lines += _held(here, broker)
        chain += _directory_chain(changes, directory)
    return [*lines, "Chain", *chain_text(chain)]


def parse_directory(text: str) -> DirectoryId:
    """Return the id of a real directory.

    Raises:
        ReplayInputError: it is none.
    """
    try:
        directory = DirectoryId(kafka_uuid.parse(text))
    except ValueError as error:
        raise ReplayInputError(f"expected the id of a directory, got {text!r}: {error}") from error
    if directory_ids.is_reserved(directory):
        name = directory_text(directory)
        raise ReplayInputError(f"{text} is the reserved id {name}, which names no directory")
    return directory


def _directory_chain(changes: Sequence[BrokerChange], directory: DirectoryId) -> list[ChainLine]:
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
        _line(change)
        for number, change in enumerate(changes)
        if number in marks[-3:] or (number >= start and _is_about_state(change))
    ]


def _is_about_state(change: BrokerChange) -> bool:
    return state_text(change.before) != state_text(change.after) or bool(
        change.gone_offline or change.come_online
    )


def _online(changes: Sequence[BrokerChange], directory: DirectoryId) -> str:
    """Return whether a directory is online, and since when."""
    if changes[-1].after is None:
        return f"gone with its broker since {_where(changes[-1])}"
    is_online = directory in changes[-1].after.directories
    since = _since(
        changes,
        lambda change: (
            change.after is not None and (directory in change.after.directories) == is_online
        ),
    )
    return f"{'online' if is_online else 'offline'} since {_where(since)}"


def _held(own: Sequence[PartitionAt], broker: BrokerId) -> list[str]:
    led = [each for each in own if each.state.leader == broker]
    out = [each for each in own if broker not in each.state.isr]
    lost = [each for each in own if each.state.leader == NO_LEADER]
    lines = [f"  replicas  {len(own)} placed there, {len(led)} of them lead"]
    if out:
        lines.append(f"  out       {len(out)} not in sync: {_names(out)}")
    if lost:
        lines.append(f"  leaderless {len(lost)}: {_names(lost)}")
    return lines


def _state_since(changes: Sequence[BrokerChange]) -> str:
    state = state_text(changes[-1].after)
    since = _since(changes, lambda change: state_text(change.after) == state)
    return f"{state} since {_where(since)}"


def _names(partitions: Sequence[PartitionAt]) -> str:
    return names_text([each.name for each in partitions])


def _directories(changes: Sequence[BrokerChange]) -> list[DirectoryId]:
    """Return all directories that a broker ever had."""
    found: dict[DirectoryId, None] = {}
    for change in changes:
        if change.after is not None:
            found.update(dict.fromkeys(change.after.directories))
    return list(found)


def _since(changes: Sequence[BrokerChange], holds: Callable[[BrokerChange], bool]) -> BrokerChange:
    """Return the change since which something holds that holds after the last one."""
    found = changes[-1]
    for change in reversed(changes):
        if not holds(change):
            break
        found = change
    return found


def _last_index(changes: Sequence[BrokerChange], holds: Callable[[BrokerChange], bool]) -> int:
    return next((n for n in reversed(range(len(changes))) if holds(changes[n])), 0)


def _line(change: BrokerChange) -> ChainLine:
    return ChainLine(source=change.source, text=broker_change_text(change))


def _where(change: BrokerChange) -> str:
    return f"offset {change.source.offset} {clock(change.source.time)}"
