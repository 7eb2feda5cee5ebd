"""What drain and balance share: the directories as a plan sees them, plans shown and begun."""

from __future__ import annotations

import sys
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
from admin_tool.reassignment.moves import (
    DEFAULT_TIMEOUT_MS,
    start_moves,
    why_immovable,
    why_refused,
)
from admin_tool.requests.connection import Connection
from admin_tool.requests.dir_details import dir_details
from admin_tool.requests.log_dirs import (
    LogDir,
    Replica,
    ReplicaDirs,
    describe_log_dirs,
    replica_dirs,
)
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

    Replicas that cannot be moved stay where they are, see `immovable`.

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


def immovable(one: BrokerDirs, path: str) -> dict[Replica, str]:
    """Return which replicas in a directory its broker would refuse to move, and why."""
    return {
        Replica(one.broker, held.topic, held.partition): reason
        for log_dir in one.log_dirs
        if log_dir.path == path
        for held in log_dir.replicas
        if not held.is_future
        for reason in (why_immovable(TopicPartition(held.topic, held.partition)),)
        if reason is not None
    }


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
    staying = {replica.topic_partition for replica in immovable(one, log_dir.path)}
    return DirState(
        path=log_dir.path,
        sizes={
            name: held.size_bytes
            for held in log_dir.replicas
            for name in (TopicPartition(held.topic, held.partition),)
            if not held.is_future and name not in moving and name not in staying
        },
        settled_bytes=sum(whole.values()) + sum(current[name] for name in staying),
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


def begin(
    connection: Connection, broker: int, moves: Sequence[Move]
) -> tuple[dict[Replica, str], dict[Replica, str]]:
    """Start moves, the first of them first.

    Returns:
        Where each replica goes that has begun, and why the broker has refused the others.
    """
    targets = {
        Replica(broker, move.partition.topic, move.partition.partition): move.target
        for move in moves
    }
    if not targets:
        return {}, {}
    try:
        codes = start_moves(connection, targets, DEFAULT_TIMEOUT_MS / 1000)
    except AdminError as error:
        # Other brokers' moves go on, and are waited for.
        return {}, dict.fromkeys(targets, f"nobody knows whether its move has begun: {error}")
    begun = {replica: path for replica, path in targets.items() if replica not in codes}
    refused = {
        replica: why_refused(replica, targets[replica], code) for replica, code in codes.items()
    }
    return begun, refused


def told(refused: Mapping[Replica, str]) -> int:
    """Say why replicas were not moved; returns the exit code."""
    sys.stdout.flush()
    for replica, reason in sorted(refused.items()):
        print(f"{replica} was not moved: {reason}", file=sys.stderr)
    return 1 if refused else 0


class Awaited:
    """Which moves are still on their way, and which have ended elsewhere; pure.

    Attributes:
        pending: Where each replica goes that is not there yet.
        lost: Why each is given up that is neither there nor on its way any more.
    """

    def __init__(self, targets: Mapping[Replica, str]) -> None:
        self.pending = dict(targets)
        self.lost: dict[Replica, str] = {}
        self._missing: dict[Replica, int] = {}

    def saw(self, replica: Replica, where: ReplicaDirs, problem: str = "") -> None:
        """Note where a pending replica is; `problem` is why its broker could not be asked."""
        target = self.pending[replica]
        if where.current == target and where.future is None:
            del self.pending[replica]
        elif where.current is not None and where.future == target:
            self._missing.pop(replica, None)
        else:
            self._missing[replica] = self._missing.get(replica, 0) + 1
            if self._missing[replica] > MISSING_POLLS_MAX:
                del self.pending[replica]
                self.lost[replica] = problem or _why_lost(replica, where, target)


def _why_lost(replica: Replica, where: ReplicaDirs, target: str) -> str:
    if where.future == target:
        return (
            f"the log directory it comes from is offline: it goes on to {target} when that one is "
            "repaired and revived, see jbod-log-dirs --describe --table"
        )
    if where.future is not None:
        return f"it goes to {where.future} instead of {target} by now: somebody has sent it there"
    if where.current is None:
        return (
            f"it is in no online log directory of broker {replica.broker} any more: see "
            "jbod-log-dirs --describe --table"
        )
    return (
        f"its move to {target} is over before its end, and it is still in {where.current}: it was "
        "cancelled, or a directory has failed; see jbod-log-dirs --describe --table, and try again"
    )


def wait_until_moved(connection: Connection, targets: Mapping[Replica, str]) -> dict[Replica, str]:
    """Wait until every replica is where it goes, however long that takes.

    Returns:
        Why some are neither there nor on their way any more; the wait goes on for the others.
    """
    awaited = Awaited(targets)
    while awaited.pending:
        for broker in sorted({replica.broker for replica in awaited.pending}):
            asked = [replica for replica in awaited.pending if replica.broker == broker]
            found, problem = dict.fromkeys(asked, ReplicaDirs(None, None)), ""
            try:
                found = replica_dirs(connection, asked)
            except AdminError as error:
                problem = f"nobody knows whether its move goes on: {error}"
            for replica, where in found.items():
                awaited.saw(replica, where, problem)
        if awaited.pending:
            time.sleep(POLL_S)
    return awaited.lost
