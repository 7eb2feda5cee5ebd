"""jbodlab dirs move: replicas go to a directory of the broker that has them."""

from __future__ import annotations

from argparse import Namespace

from admin_tool.arguments import listed
from admin_tool.connecting import connected
from admin_tool.log_dir_actions.dir_names import resolve
from admin_tool.log_dir_actions.planning import carry_out, check_moving, report
from admin_tool.reassignment.target_dirs import problem_of
from jbodlab.cli.output import Output
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica, describe_log_dirs


async def run(options: Namespace, output: Output) -> int:
    """Move replicas to another directory of their broker; returns the exit code."""
    check_moving(options)
    broker = options.to.broker
    async with connected(options) as client:
        await client.broker(broker)
        log_dirs = await describe_log_dirs(client, broker)
        path = resolve(options.to, log_dirs).path
        held = {one for each in log_dirs for one in (*each.current, *each.future)}
        missing = [one for one in options.partitions if one not in held]
        if missing:
            raise AdminError(
                f"broker {broker} has no online replica of {listed(missing)}; `jbodlab reassign "
                "execute` moves replicas between brokers"
            )
        targets = {Replica(broker, *one): path for one in options.partitions}
        problem = problem_of(targets, log_dirs)
        if problem is not None:
            raise AdminError(f"cannot move {problem[0]}: {problem[1]}")
        what = listed(options.partitions)
        output.confirm(f"move {what} of broker {broker} to {path}?", yes=options.yes)
        refused = await carry_out(client, targets, options, output)
    return report(output, refused)
