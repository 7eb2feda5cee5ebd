"""jbodlab reassign list, generate and verify."""

from __future__ import annotations

import random
from argparse import Namespace
from typing import TYPE_CHECKING

from admin_tool.arguments import listed
from admin_tool.connecting import connected
from admin_tool.reassignment.assignment import described
from admin_tool.reassignment.json_form import as_value, read_plan
from admin_tool.reassignment.proposal import propose
from admin_tool.reassignment.status import DONE, partition_status, replica_status
from admin_tool.reassignment.throttles import clear_throttles
from jbodlab.cli.output import Output, place, table
from jbodlab.kafka_admin.log_dirs import replica_dirs
from jbodlab.kafka_admin.reassignments import list_reassignments
from jbodlab.kafka_admin.topics import describe_topics, replicas_of
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.cli.results import Reassigning, VerifiedReassignment


async def list_all(options: Namespace, output: Output) -> int:
    """List the partitions that are being reassigned; returns the exit code."""
    async with connected(options) as client:
        ongoing = sorted((await list_reassignments(client)).items())
    value: list[Reassigning] = [
        {
            **place(one),
            "replicas": list(state.replicas),
            "adding": list(state.adding),
            "removing": list(state.removing),
        }
        for one, state in ongoing
    ]
    rows = [(str(one), state.replicas, state.adding, state.removing) for one, state in ongoing]
    text = table(("PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows)
    output.result(value, text if rows else "no partition is being reassigned")
    return 0


async def generate(options: Namespace, output: Output) -> int:
    """Print a reassignment, as JSON, that spreads topics over brokers; changes nothing."""
    async with connected(options) as client:
        topics = await described(client, options.topics)
        racks = {
            broker.id: None if options.ignore_racks else broker.rack
            for broker in await client.selected(options.brokers or ())
        }
    proposed = {}
    for topic in topics.values():
        assignment = propose(
            [partition.index for partition in topic.partitions],
            len(topic.partitions[0].replicas),
            racks,
            start=random.randrange(1 << 16),
            shift=random.randrange(1 << 16),
        )
        proposed.update(
            {TopicPartition(topic.name, index): chosen for index, chosen in assignment.items()}
        )
    output.json(as_value(proposed, {}))
    return 0


async def verify(options: Namespace, output: Output) -> int:
    """Show how far a reassignment is, and remove its throttles when it is over."""
    plan = read_plan(options.file)
    wanted = plan.replicas
    async with connected(options) as client:
        ongoing = await list_reassignments(client)
        topics = await describe_topics(client, {one.topic for one in wanted})
        found = [
            *partition_status(wanted, ongoing, replicas_of(topics, wanted)),
            *replica_status(plan.log_dirs, await replica_dirs(client, plan.log_dirs)),
        ]
        value: list[VerifiedReassignment] = [
            {
                **place(one.partition),
                "broker": one.broker,
                "state": one.state,
                "text": one.text,
            }
            for one in found
        ]
        rows = [(str(one.partition), one.broker, one.text) for one in found]
        output.result(value, table(("PARTITION", "BROKER", "STATE"), rows))
        # Throttles are shared, so another reassignment still needs them.
        if not ongoing and all(one.is_over for one in found) and not options.keep_throttles:
            await clear_throttles(client, wanted)
            output.note(f"removed the throttles of all brokers and of {listed(sorted(wanted))}")
    return 0 if all(one.state == DONE for one in found) else 1
