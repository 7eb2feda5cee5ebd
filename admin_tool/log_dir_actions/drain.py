"""jbodlab dirs drain: everything in one log directory moves to the broker's others.

The command refuses, with figures, if the other directories have too little space. A replica that
the broker refuses to move stays, and the command prints why; all others move.
"""

from __future__ import annotations

from argparse import Namespace

from admin_tool.arguments import listed
from admin_tool.connecting import connected
from admin_tool.log_dir_actions.dir_names import resolve
from admin_tool.log_dir_actions.move_plan import Move, drain
from admin_tool.log_dir_actions.planning import (
    Plan,
    broker_dirs,
    check_moving,
    dir_states,
    execute,
    immovable,
)
from admin_tool.log_dir_actions.table import BrokerDirs, moves, state_of
from admin_tool.reassignment.target_dirs import why_blocked
from jbodlab.cli.output import Output, counted
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.vocabulary.ids import TopicPartition


async def run(options: Namespace, output: Output) -> int:
    """Move all replicas of a directory to the other directories of its broker."""
    check_moving(options)
    async with connected(options) as client:
        broker = options.dir.broker
        (one,) = await broker_dirs(client, broker)
        log_dir = resolve(options.dir, one.log_dirs)
        check_source(one, log_dir)
        dirs = dir_states(one)
        moving = [*returning(one, log_dir.path), *drain(dirs, log_dir.path)]
        _note_rest(one, log_dir, output)
        what = f"{counted(len(moving), 'replica')} out of {log_dir.path} of broker {broker}"
        staying = immovable(one, log_dir.path)
        plans = [Plan(one, dirs, moving)]
        return await execute(client, plans, options, output, f"move {what}?", staying)


def check_source(one: BrokerDirs, log_dir: DescribedLogDir) -> None:
    """Insist on a directory that can be read, of a broker that moves replicas.

    Raises:
        AdminError: it cannot, or the broker moves none.
    """
    if log_dir.error_code:
        state = state_of(log_dir)
        raise AdminError(f"cannot read {log_dir.path} of broker {one.broker}: it is {state}")
    reason = why_blocked(one.broker, one.log_dirs)
    if reason is not None:
        raise AdminError(reason)


def returning(one: BrokerDirs, path: str) -> list[Move]:
    """Return the ends of moves into the directory, whose replicas stay where they are; pure."""
    return [
        Move(TopicPartition(each.topic, each.partition), path, each.source, each.total_bytes)
        for each in moves([one])
        if each.target == path and each.source is not None
    ]


def _note_rest(one: BrokerDirs, log_dir: DescribedLogDir, output: Output) -> None:
    leaving = [each.name for each in moves([one]) if each.source == log_dir.path]
    if leaving:
        output.note(f"already moving out: {listed(leaving)}")
    if not log_dir.is_cordoned:
        output.note(
            f"{log_dir.path} still takes new replicas; `jbodlab dirs cordon` keeps them out"
        )
