"""jbod-reassign-partitions --cancel."""

from __future__ import annotations

from admin_tool.errors import PlainError
from admin_tool.options import Parsed
from admin_tool.reassignment.execute import refusals
from admin_tool.reassignment.json_form import read_plan
from admin_tool.reassignment.moves import check_started, start_moves, timeout_s
from admin_tool.reassignment.throttles import clear_throttles
from admin_tool.requests.connection import connected
from admin_tool.requests.log_dirs import Replica, replica_dirs
from admin_tool.requests.reassignments import alter_reassignments, list_reassignments


def run(options: Parsed) -> int:
    """Stop what the file says; returns the exit code."""
    patience_s = timeout_s(options)
    plan = read_plan(options.required("reassignment-json-file"))
    wanted = plan.replicas
    with connected(options) as connection:
        active = sorted(list_reassignments(connection, wanted)) if wanted else []
        if active:
            refused = alter_reassignments(connection, dict.fromkeys(active))
            if refused:
                plural = "" if len(refused) == 1 else "s"
                head = f"Error cancelling partition reassignment{plural} for:"
                raise PlainError("\n".join([head, *refusals(refused)]))
            plural = "" if len(active) == 1 else "s"
            listed = ",".join(map(str, active))
            print(f"Successfully cancelled partition reassignment{plural} for: {listed}")
        else:
            print("None of the specified partition reassignments are active.")
        # A move ends by being sent where the replica is already.
        moving = {
            replica: where.current
            for replica, where in replica_dirs(connection, plan.log_dirs).items()
            if where.current is not None and where.future is not None
        }
        refused_moves: dict[Replica, int] = {}
        if moving:
            refused_moves = start_moves(connection, moving, patience_s)
        else:
            # Without a line end, as Kafka has it.
            print("None of the specified partition moves are active.", end="", flush=True)
        if not options.has("preserve-throttles"):
            clear_throttles(connection, wanted)
        check_started(moving, refused_moves)
    return 0
