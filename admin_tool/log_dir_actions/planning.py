"""Parts of drain, balance and move: directories as a plan sees them, plans shown and started."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from admin_tool.log_dir_actions.move_plan import (
    DirState,
    Move,
    held_after,
    room_bytes,
    spread_bytes,
)
from admin_tool.log_dir_actions.table import BrokerDirs, state_of
from admin_tool.reassignment.moves import (
    DEFAULT_TIMEOUT_S,
    start_moves,
    why_immovable,
    why_refused,
)
from admin_tool.waiting import pause
from jbodlab.cli.output import PROGRESS_AFTER_S, Output, counted, place, table
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.dir_details import with_details
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import (
    DescribedLogDir,
    Replica,
    ReplicaDirs,
    by_broker,
    describe_log_dirs,
    replica_dirs,
)
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.sizes import size_text

if TYPE_CHECKING:
    from jbodlab.cli.results import Moved, MovePlan, NotMoved, PlannedDirectory
    from jbodlab.kafka_admin.client import AdminClient, Broker

HARMLESS = "SLOW"
"""The one condition of a directory in which it still takes replicas."""

DEFAULT_WAIT_S = 3600
POLL_S = 0.2
MISSING_POLLS_MAX = 5
"""So often in a row may a replica be neither on its way nor there before its move counts as failed;
the looks into the directories are not made at the same moment."""


def check_moving(options: Namespace) -> None:
    """Complete `options.timeout`.

    Raises:
        UsageError: it was given and does nothing.
    """
    if options.timeout is not None and not options.wait:
        raise UsageError("--timeout needs --wait")
    options.timeout = options.timeout or DEFAULT_WAIT_S


async def broker_dirs(client: AdminClient, *brokers: int) -> list[BrokerDirs]:
    """Ask brokers for their directories; without brokers all of the cluster.

    Raises:
        AdminError: there is no such broker, or one does not answer.
    """
    return [await dirs_of(client, one) for one in await client.selected(brokers)]


async def dirs_of(client: AdminClient, broker: Broker) -> BrokerDirs:
    """Ask a live broker for its directories."""
    log_dirs = await describe_log_dirs(client, broker.id)
    return BrokerDirs(broker=broker.id, log_dirs=await with_details(client, broker, log_dirs))


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
        name: held.size_bytes for log_dir in online for name, held in log_dir.current.items()
    }
    moving = {name for log_dir in online for name in log_dir.future}
    return [_dir_state(one, log_dir, current, moving) for log_dir in online]


def immovable(one: BrokerDirs, path: str) -> dict[Replica, str]:
    """Return which replicas in a directory its broker would refuse to move, and why."""
    return {
        Replica(one.broker, *name): reason
        for log_dir in one.log_dirs
        if log_dir.path == path
        for name in log_dir.current
        if (reason := why_immovable(name)) is not None
    }


def takes_replicas(log_dir: DescribedLogDir) -> bool:
    """Return whether an online directory takes replicas that are not in it, as far as told."""
    return not log_dir.is_cordoned and all(each == HARMLESS for each in log_dir.troubles)


def _dir_state(
    one: BrokerDirs,
    log_dir: DescribedLogDir,
    current: Mapping[TopicPartition, int],
    moving: set[TopicPartition],
) -> DirState:
    coming = {name: held.size_bytes for name, held in log_dir.future.items()}
    whole = {name: max(current.get(name, 0), copied) for name, copied in coming.items()}
    takes = takes_replicas(log_dir)
    missing_bytes = sum(whole.values()) - sum(coming.values())
    staying = {replica.topic_partition for replica in immovable(one, log_dir.path)}
    return DirState(
        path=log_dir.path,
        sizes={
            name: held.size_bytes
            for name, held in log_dir.current.items()
            if name not in moving and name not in staying
        },
        settled_bytes=sum(whole.values()) + sum(current[name] for name in staying),
        room_bytes=(
            room_bytes(log_dir.usable_bytes, log_dir.total_bytes, missing_bytes) if takes else 0
        ),
        takes=takes,
    )


class Plan(NamedTuple):
    """The moves of one broker, and its directories before them."""

    before: BrokerDirs
    dirs: Sequence[DirState]
    moves: Sequence[Move]

    def as_value(self) -> MovePlan:
        """Return what `--output json` prints of the plan; pure."""
        return {
            "broker": self.before.broker,
            "moves": [
                {
                    "partition": str(move.partition),
                    "source": move.source,
                    "target": move.target,
                    "bytes": move.size_bytes,
                }
                for move in self.moves
            ],
            "directories": _effect(self.before, self.dirs, held_after(self.dirs, self.moves)),
        }

    def as_text(self) -> str:
        """Return the moves, and what they do to the directories, as text; pure."""
        value = self.as_value()
        size = size_text(sum(move["bytes"] for move in value["moves"]))
        lines = [f"plan for broker {value['broker']}: {counted(len(self.moves), 'move')}, {size}"]
        if self.moves:
            cells = [
                (one["partition"], size_text(one["bytes"]), one["source"], one["target"])
                for one in value["moves"]
            ]
            lines += ["", table(("MOVE", "SIZE", "FROM", "TO"), cells)]
        return "\n".join([*lines, "", _effect_text(value["directories"])])


def shown_effect(before: BrokerDirs, now: BrokerDirs) -> str:
    """Return what moves did to the directories of a broker, as text; pure."""
    held = {each.path: each.held_bytes for each in dir_states(now)}
    return f"broker {now.broker}:\n{_effect_text(_effect(now, dir_states(before), held))}"


def _effect(
    one: BrokerDirs, dirs: Sequence[DirState], after: Mapping[str, int]
) -> list[PlannedDirectory]:
    states = {each.path: state_of(each) for each in one.log_dirs}
    return [
        {
            "path": each.path,
            "state": states[each.path],
            "bytes_before": each.held_bytes,
            "bytes_after": after.get(each.path),
            "room_bytes": each.room_bytes,
        }
        for each in sorted(dirs, key=lambda each: each.path)
    ]


def _effect_text(dirs: Sequence[PlannedDirectory]) -> str:
    cells = [
        (
            one["path"],
            one["state"],
            *map(size_text, (one["bytes_before"], one["bytes_after"], one["room_bytes"])),
        )
        for one in dirs
    ]
    before, after = (
        size_text(spread_bytes([size for size in sizes if size is not None]))
        for sizes in (
            [one["bytes_before"] for one in dirs],
            [one["bytes_after"] for one in dirs],
        )
    )
    return (
        f"{table(('PATH', 'STATE', 'BEFORE', 'AFTER', 'ROOM'), cells)}\n"
        f"spread (fullest minus emptiest): {before} before, {after} after"
    )


async def execute(
    client: AdminClient,
    plans: Sequence[Plan],
    options: Namespace,
    output: Output,
    question: str,
    staying: Mapping[Replica, str] = MappingProxyType({}),
) -> int:
    """Show plans, carry them out unless `--dry-run` is given, and report; returns the exit code.

    Args:
        client: The cluster.
        plans: One for each broker.
        options: With those of `MOVING`.
        output: Where the plans are shown; as JSON once all is done.
        question: The question that the user has to confirm.
        staying: Why replicas stay that ought to move.

    Raises:
        AdminError: replicas were not moved.
    """
    targets = {
        Replica(plan.before.broker, *move.partition): move.target
        for plan in plans
        for move in plan.moves
    }
    text = "\n\n".join(plan.as_text() for plan in plans)
    refused = dict(staying)
    if targets and not options.dry_run:
        output.line(text)
        output.confirm(question, yes=options.yes)
        refused |= await carry_out(client, targets, options, output)
        text = ""
        if options.wait:
            done = [plan.before for plan in plans if plan.moves]
            now = await broker_dirs(client, *(one.broker for one in done))
            text = "\n".join(map(shown_effect, sorted(done, key=lambda one: one.broker), now))
    value: Moved = {
        "plans": [plan.as_value() for plan in plans],
        "not_moved": reasons_value(refused),
    }
    output.result(value, text)
    return report(output, refused)


def reasons_value(refused: Mapping[Replica, str]) -> list[NotMoved]:
    """Return replicas with the reasons why brokers refused something, as JSON has them; pure."""
    return [
        {**place(one.topic_partition), "broker": one.broker, "reason": reason}
        for one, reason in sorted(refused.items())
    ]


async def carry_out(
    client: AdminClient, targets: Mapping[Replica, str], options: Namespace, output: Output
) -> dict[Replica, str]:
    """Start moves, the first of them first, and wait for them where `--wait` is given.

    Returns:
        Why replicas were not moved; what one broker refuses does not hold up the others.
    """
    refused: dict[Replica, str] = {}
    for here in by_broker(targets).values():
        try:
            codes = await start_moves(client, here, DEFAULT_TIMEOUT_S)
        except AdminError as error:
            refused |= dict.fromkeys(here, f"it is unknown whether its move has begun: {error}")
        else:
            refused |= {
                replica: why_refused(replica, here[replica], code)
                for replica, code in codes.items()
            }
    begun = {replica: path for replica, path in targets.items() if replica not in refused}
    output.line(f"started {counted(len(begun), 'move')}")
    if options.wait:
        refused |= await wait_until_moved(client, begun, options.timeout, output)
    return refused


def report(output: Output, refused: Mapping[Replica, str]) -> int:
    """Note why replicas were not moved; returns the exit code 0.

    Raises:
        AdminError: there are such replicas.
    """
    for replica, reason in sorted(refused.items()):
        output.note(f"{replica}: {reason}")
    if refused:
        raise AdminError(f"{counted(len(refused), 'replica')} not moved")
    return 0


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
            f"its source directory is offline; it goes on to {target} once that one is repaired "
            "and revived, see `jbodlab dirs list`"
        )
    if where.future is not None:
        return f"somebody has sent it to {where.future} instead of {target}"
    if where.current is None:
        return (
            f"it is in no online log directory of broker {replica.broker}, see `jbodlab dirs list`"
        )
    return (
        f"its move to {target} ended early, and it is still in {where.current}: the move was "
        "cancelled, or a directory failed, see `jbodlab dirs list`"
    )


async def wait_until_moved(
    client: AdminClient, targets: Mapping[Replica, str], timeout_s: float, output: Output
) -> dict[Replica, str]:
    """Wait until every replica is where it goes, for `timeout_s` seconds at most.

    Returns:
        Why some are neither there nor moving any more, or late; the wait goes on for the others.
    """
    awaited = Awaited(targets)
    start = time.monotonic()
    shown = 0
    while awaited.pending:
        for asked in by_broker(awaited.pending).values():
            found, problem = dict.fromkeys(asked, ReplicaDirs(None, None)), ""
            try:
                found = await replica_dirs(client, asked)
            except AdminError as error:
                problem = f"it is unknown whether its move goes on: {error}"
            for replica, where in found.items():
                awaited.saw(replica, where, problem)
        waited_s = time.monotonic() - start
        if waited_s > timeout_s:
            late = f"not done after {timeout_s:g} s, the move goes on"
            return awaited.lost | dict.fromkeys(awaited.pending, late)
        if awaited.pending:
            if waited_s > PROGRESS_AFTER_S and len(awaited.pending) != shown:
                shown = len(awaited.pending)
                output.progress(f"waiting for {counted(shown, 'move')}")
            await pause(POLL_S)
    return awaited.lost
