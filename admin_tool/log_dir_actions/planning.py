"""What drain and balance share: the directories as a plan sees them, plans shown and begun."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from admin_tool.errors import AdminError
from admin_tool.log_dir_actions.move_plan import (
    DirState,
    Move,
    held_after,
    room_bytes,
    spread_bytes,
)
from admin_tool.log_dir_actions.table import BrokerDirs, columns, size_text, state_of
from admin_tool.reassignment.moves import DEFAULT_TIMEOUT_MS, start_moves
from admin_tool.requests.connection import Connection
from admin_tool.requests.dir_details import dir_details
from admin_tool.requests.log_dirs import LogDir, Replica, describe_log_dirs, replica_dirs
from jbodlab.ids import TopicPartition

HARMLESS = "SLOW"
"""The one condition of a directory in which it still takes replicas."""

POLL_S = 0.2
MISSING_POLLS_MAX = 5
"""So often in a row may a replica be neither on its way nor there before its move counts as failed;
the looks into the directories are not made at the same moment."""


def broker_dirs(connection: Connection, broker: int | None = None) -> list[BrokerDirs]:
    """Ask one broker for its directories, or all.

    Raises:
        AdminError: there is no such broker, or one does not answer.
    """
    known = connection.brokers()
    if broker is not None and broker not in [one.id for one in known]:
        listed = ",".join(str(one.id) for one in known)
        raise AdminError(f"broker {broker} is not a live broker of the cluster: {listed}")
    return [
        BrokerDirs(
            broker=one.id,
            log_dirs=describe_log_dirs(connection, one.id),
            details=dir_details(connection, one),
        )
        for one in known
        if broker in (None, one.id)
    ]


def dir_states(one: BrokerDirs) -> list[DirState]:
    """Return the online directories of a broker; replicas on their way count where they go.

    Raises:
        AdminError: the broker does not say how much room there is.
    """
    online = [log_dir for log_dir in one.log_dirs if not log_dir.error_code]
    for log_dir in online:
        if min(log_dir.total_bytes, log_dir.usable_bytes) < 0:
            raise AdminError(
                f"broker {one.broker} does not say how much room there is in {log_dir.path}"
            )
    current = {
        TopicPartition(held.topic, held.partition): held.size_bytes
        for log_dir in online
        for held in log_dir.replicas
        if not held.is_future
    }
    moving = {
        TopicPartition(held.topic, held.partition)
        for log_dir in online
        for held in log_dir.replicas
        if held.is_future
    }
    return [_dir_state(one, log_dir, current, moving) for log_dir in online]


def standstill(one: BrokerDirs) -> str | None:
    """Return why a broker lets no replica move; None if it does.

    What is in a directory that is offline nobody knows; so brokers refuse to copy anything.
    """
    offline = [log_dir.path for log_dir in one.log_dirs if log_dir.error_code]
    if not offline:
        return None
    return (
        f"broker {one.broker} moves nothing while a log directory is offline: {', '.join(offline)}"
    )


def takes_replicas(one: BrokerDirs, log_dir: LogDir) -> bool:
    """Return whether an online directory takes replicas that are not in it, as far as told."""
    detail = one.details.get(log_dir.path)
    conditions = detail.conditions if detail is not None else ()
    return not log_dir.is_cordoned and all(each == HARMLESS for each in conditions)


def _dir_state(
    one: BrokerDirs,
    log_dir: LogDir,
    current: Mapping[TopicPartition, int],
    moving: set[TopicPartition],
) -> DirState:
    coming = {
        TopicPartition(held.topic, held.partition): held.size_bytes
        for held in log_dir.replicas
        if held.is_future
    }
    whole = {name: max(current.get(name, 0), copied) for name, copied in coming.items()}
    takes = takes_replicas(one, log_dir)
    missing_bytes = sum(whole.values()) - sum(coming.values())
    return DirState(
        path=log_dir.path,
        sizes={
            name: held.size_bytes
            for held in log_dir.replicas
            for name in (TopicPartition(held.topic, held.partition),)
            if not held.is_future and name not in moving
        },
        settled_bytes=sum(whole.values()),
        room_bytes=(
            room_bytes(log_dir.usable_bytes, log_dir.total_bytes, missing_bytes) if takes else 0
        ),
        takes=takes,
    )


def shown_plan(one: BrokerDirs, dirs: Sequence[DirState], moves: Sequence[Move]) -> str:
    """Return the moves, and what they do to the directories."""
    size = size_text(sum(move.size_bytes for move in moves))
    plural = "" if len(moves) == 1 else "s"
    lines = [f"Plan for broker {one.broker}: {len(moves)} move{plural}, {size}"]
    if moves:
        cells = [
            (str(move.partition), size_text(move.size_bytes), move.source, move.target)
            for move in moves
        ]
        lines += ["", *columns([("MOVE", "SIZE", "FROM", "TO"), *cells], right=[1])]
    return "\n".join([*lines, "", *_effect(one, dirs, held_after(dirs, moves))])


def shown_effect(before: BrokerDirs, now: BrokerDirs) -> str:
    """Return what moves did to the directories of a broker."""
    held = {each.path: each.held_bytes for each in dir_states(now)}
    return "\n".join([f"Broker {now.broker}:", *_effect(now, dir_states(before), held)])


def _effect(one: BrokerDirs, dirs: Sequence[DirState], after: Mapping[str, int]) -> list[str]:
    states = {each.path: state_of(each, one.details.get(each.path)) for each in one.log_dirs}
    cells = [
        (
            each.path,
            states[each.path],
            size_text(each.held_bytes),
            size_text(after.get(each.path, -1)),
            size_text(each.room_bytes),
        )
        for each in sorted(dirs, key=lambda each: each.path)
    ]
    before_bytes = [each.held_bytes for each in dirs]
    after_bytes = [after[each.path] for each in dirs if each.path in after]
    return [
        *columns([("LOG DIR", "STATE", "BEFORE", "AFTER", "ROOM"), *cells], right=[2, 3, 4]),
        f"Distance of the fullest from the emptiest: {size_text(spread_bytes(before_bytes))} "
        f"before, {size_text(spread_bytes(after_bytes))} after",
    ]


def begin(connection: Connection, broker: int, moves: Sequence[Move]) -> dict[Replica, str]:
    """Start moves, the first of them first; returns where each replica goes.

    Raises:
        AdminError: the broker refuses one; those that have begun go on.
    """
    targets = {
        Replica(broker, move.partition.topic, move.partition.partition): move.target
        for move in moves
    }
    if targets:
        start_moves(connection, targets, DEFAULT_TIMEOUT_MS / 1000)
    return targets


def wait_until_moved(connection: Connection, targets: Mapping[Replica, str]) -> None:
    """Wait until every replica is where it goes, however long that takes.

    Raises:
        AdminError: some are neither there nor on their way any more.
    """
    missing: dict[Replica, int] = {}
    pending = dict(targets)
    while pending:
        for replica, where in replica_dirs(connection, pending).items():
            if where.current == pending[replica] and where.future is None:
                del pending[replica]
            elif where.future == pending[replica]:
                missing.pop(replica, None)
            else:
                missing[replica] = missing.get(replica, 0) + 1
        lost = [each for each in pending if missing.get(each, 0) > MISSING_POLLS_MAX]
        if len(lost) == len(pending) and lost:
            listed = ",".join(map(str, lost))
            raise AdminError(f"not moved, and no longer on the way: {listed}")
        if pending:
            time.sleep(POLL_S)
