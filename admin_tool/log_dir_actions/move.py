"""jbodlab dirs move: replicas go to a directory of the broker that has them."""

from __future__ import annotations

from argparse import Namespace

from admin_tool.arguments import listed, topic_partition
from admin_tool.connecting import connected
from admin_tool.log_dir_actions.dir_names import resolve
from admin_tool.log_dir_actions.planning import add_wait, carry_out, check_moving, report
from admin_tool.reassignment.target_dirs import problem_of
from jbodlab.cli.command import servers_command
from jbodlab.cli.dir_names import dir_name
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.log_dirs import Replica, describe_log_dirs


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "partitions",
        metavar="PARTITION",
        nargs="+",
        type=topic_partition,
        help="such as orders-0",
    )
    parser.add_argument(
        "--to",
        metavar="DIR",
        type=dir_name,
        required=True,
        help="such as broker-1/2 or broker-1:/mnt/d2: a directory of the broker that has them",
    )
    add_wait(parser)


async def _run(options: Namespace, output: Output) -> int:
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


MOVE = servers_command(
    help="move replicas to another directory of their broker",
    run=_run,
    arguments=_arguments,
    examples=("dirs move orders-0 --to broker-1/2", "dirs move orders-0 orders-3 --to broker-1/2"),
    asks=True,
)
