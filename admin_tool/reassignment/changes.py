"""jbodlab reassign execute and cancel."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING

from admin_tool.arguments import listed
from admin_tool.connecting import connected
from admin_tool.reassignment.assignment import current_log_dirs, current_replicas
from admin_tool.reassignment.json_form import Plan, as_value, read_plan
from admin_tool.reassignment.moves import check_started, start_moves
from admin_tool.reassignment.target_dirs import check_log_dirs
from admin_tool.reassignment.throttles import (
    clear_throttles,
    partition_moves,
    throttle_brokers,
    throttle_log_dirs,
)
from jbodlab.cli.output import Output, counted
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica, replica_dirs
from jbodlab.kafka_admin.reassignments import (
    Reassignment,
    alter_reassignments,
    list_reassignments,
)
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient


async def execute(options: Namespace, output: Output) -> int:
    """Start a reassignment, and print the former assignment as JSON; returns the exit code."""
    plan = read_plan(options.file)
    async with connected(options) as client:
        ongoing = await list_reassignments(client)
        if ongoing and not options.additional:
            raise AdminError(
                f"{counted(len(ongoing), 'partition')} are being reassigned; --additional starts "
                "this reassignment beside them"
            )
        for broker in sorted({broker for one in plan.partitions for broker in one.replicas}):
            await client.broker(broker)
        current = await current_replicas(client, plan.replicas)
        await check_log_dirs(client, plan.log_dirs)
        output.confirm(f"reassign {listed(sorted(plan.replicas))}?", yes=options.yes)
        output.json(as_value(current, await current_log_dirs(client, current)))
        output.note("stdout has the former assignment, a FILE that undoes this")
        await _throttle(client, options, plan, ongoing, current)
        refused = await alter_reassignments(client, plan.replicas)
        if refused:
            raise AdminError(f"cannot reassign {_reasons(refused)}")
        output.note(f"started the reassignment of {counted(len(plan.partitions), 'partition')}")
        if plan.log_dirs:
            codes = await start_moves(client, plan.log_dirs, options.timeout)
            count = len(plan.log_dirs) - len(codes)
            output.note(f"started {counted(count, 'move')} between directories")
            check_started(plan.log_dirs, codes)
    return 0


async def _throttle(
    client: AdminClient,
    options: Namespace,
    plan: Plan,
    ongoing: Mapping[TopicPartition, Reassignment],
    current: Mapping[TopicPartition, tuple[int, ...]],
) -> None:
    if options.throttle:
        moves = partition_moves(ongoing, plan.replicas, current)
        await throttle_brokers(client, moves, options.throttle)
    if options.dirs_throttle:
        await throttle_log_dirs(client, plan.log_dirs, options.dirs_throttle)


async def cancel(options: Namespace, output: Output) -> int:
    """Stop a reassignment, and remove its throttles; returns the exit code."""
    plan = read_plan(options.file)
    wanted = plan.replicas
    async with connected(options) as client:
        active = sorted(await list_reassignments(client, wanted))
        # A move ends by being sent where the replica is already.
        moving = {
            replica: where.current
            for replica, where in (await replica_dirs(client, plan.log_dirs)).items()
            if where.current is not None and where.future is not None
        }
        if active or moving:
            output.confirm(
                f"cancel {counted(len(active), 'reassignment')} and "
                f"{counted(len(moving), 'move')} between directories?",
                yes=options.yes,
            )
        refused = await alter_reassignments(client, dict.fromkeys(active)) if active else {}
        if refused:
            raise AdminError(f"cannot cancel the reassignment of {_reasons(refused)}")
        codes: dict[Replica, int] = {}
        if moving:
            codes = await start_moves(client, moving, options.timeout)
        output.line(
            f"cancelled {counted(len(active), 'reassignment')} and "
            f"{counted(len(moving) - len(codes), 'move')} between directories"
        )
        if not options.keep_throttles:
            await clear_throttles(client, wanted)
        check_started(moving, codes)
    return 0


def _reasons(refused: Mapping[TopicPartition, str]) -> str:
    return "; ".join(f"{one}: {message}" for one, message in sorted(refused.items()))
