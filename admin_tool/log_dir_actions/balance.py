"""jbodlab dirs balance: as many bytes in each log directory of a broker as in its others.

The command keeps no state: the brokers report which moves are under way, and --cancel ends all of
them, also those that other commands have started. Offline directories take no part, cordoned ones
are left as they are, and full ones only give.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.log_dir_actions.move_plan import balance
from admin_tool.log_dir_actions.planning import (
    Plan,
    broker_dirs,
    check_moving,
    dir_states,
    execute,
    reasons_value,
)
from admin_tool.log_dir_actions.table import BrokerDirs, moves
from admin_tool.reassignment.moves import DEFAULT_TIMEOUT_S, start_moves, why_refused
from admin_tool.reassignment.target_dirs import why_blocked
from jbodlab.cli.output import Output, counted, place
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica

if TYPE_CHECKING:
    from jbodlab.cli.results import BrokerReplica
    from jbodlab.kafka_admin.client import AdminClient


async def run(options: Namespace, output: Output) -> int:
    """Move replicas so that the directories of each broker hold about as many bytes."""
    check_moving(options)
    if options.cancel and (options.dry_run or options.wait):
        raise UsageError("--cancel excludes --dry-run and --wait")
    async with connected(options) as client:
        found = await broker_dirs(client, *(options.brokers or ()))
        if options.cancel:
            return await _cancel(client, found, options, output)
        plans = list(map(_plan, movable(found, output)))
        count = sum(len(plan.moves) for plan in plans)
        question = f"start {counted(count, 'move')}?"
        code = await execute(client, plans, options, output, question)
        if not count:
            output.line("already balanced")
    return code


def movable(found: list[BrokerDirs], output: Output) -> list[BrokerDirs]:
    """Return the brokers that move replicas, and note why others are skipped.

    Raises:
        AdminError: all are skipped.
    """
    reasons = {one.broker: why_blocked(one.broker, one.log_dirs) for one in found}
    skipped = [reason for reason in reasons.values() if reason is not None]
    if len(skipped) == len(found):
        raise AdminError("; ".join(skipped))
    for reason in skipped:
        output.note(f"skipped: {reason}")
    return [one for one in found if reasons[one.broker] is None]


def _plan(one: BrokerDirs) -> Plan:
    is_cordoned = {log_dir.path for log_dir in one.log_dirs if log_dir.is_cordoned}
    dirs = [each for each in dir_states(one) if each.path not in is_cordoned]
    return Plan(one, dirs, balance(dirs))


async def _cancel(
    client: AdminClient, found: list[BrokerDirs], options: Namespace, output: Output
) -> int:
    # A move ends by being sent where the replica is already.
    targets = {
        Replica(each.broker, each.topic, each.partition): each.source
        for each in moves(found)
        if each.source is not None
    }
    text = "no move between directories is under way"
    refused: dict[Replica, str] = {}
    if targets:
        output.confirm(f"cancel {counted(len(targets), 'move')}?", yes=options.yes)
        codes = await start_moves(client, targets, DEFAULT_TIMEOUT_S)
        refused = {one: why_refused(one, targets[one], code) for one, code in codes.items()}
        text = f"cancelled {counted(len(targets) - len(codes), 'move')}"
    cancelled: list[BrokerReplica] = [
        {**place(one.topic_partition), "broker": one.broker}
        for one in targets
        if one not in refused
    ]
    output.result({"cancelled": cancelled, "not_cancelled": reasons_value(refused)}, text)
    for replica, reason in refused.items():
        output.note(f"{replica}: {reason}")
    if refused:
        raise AdminError(f"cannot cancel {counted(len(refused), 'move')}")
    return 0
