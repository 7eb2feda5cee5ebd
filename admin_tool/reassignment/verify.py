"""jbod-reassign-partitions --verify."""

from __future__ import annotations

from admin_tool.options import Parsed
from admin_tool.reassignment.json_form import read_plan
from admin_tool.reassignment.status import partition_status, replica_status
from admin_tool.reassignment.throttles import clear_throttles
from admin_tool.requests.connection import connected
from admin_tool.requests.log_dirs import replica_dirs
from admin_tool.requests.reassignments import list_reassignments
from admin_tool.requests.topics import describe_topics, replicas_of


def run(options: Parsed) -> int:
    """Tell how far what the file says has come; returns the exit code."""
    plan = read_plan(options.required("reassignment-json-file"))
    with connected(options) as connection:
        wanted = plan.replicas
        ongoing = list_reassignments(connection)
        topics = describe_topics(connection, {one.topic for one in wanted})
        partitions = partition_status(wanted, ongoing, replicas_of(topics, wanted))
        print("\n".join(["Status of partition reassignment:", *partitions.lines]), flush=True)
        moves = replica_status(plan.log_dirs, replica_dirs(connection, plan.log_dirs))
        print("\n".join(moves.lines), flush=True)
        if partitions.is_done and moves.is_done and not options.has("preserve-throttles"):
            clear_throttles(connection, wanted)
    return 0
