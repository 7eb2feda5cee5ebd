"""jbod-reassign-partitions --execute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from admin_tool.errors import AdminError, PlainError
from admin_tool.options import Parsed
from admin_tool.reassignment.assignment import current_log_dirs, current_replicas
from admin_tool.reassignment.json_form import Plan, check_plan, read_plan, render
from admin_tool.reassignment.moves import check_started, start_moves, timeout_s
from admin_tool.reassignment.target_dirs import check_log_dirs
from admin_tool.reassignment.throttles import (
    partition_moves,
    throttle_brokers,
    throttle_log_dirs,
)
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.reassignments import alter_reassignments, list_reassignments
from jbodlab.ids import TopicPartition

EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
RUN_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
UNLIMITED = -1


def run(options: Parsed) -> int:
    """Start what the file says; returns the exit code."""
    broker_rate = _rate(options, "throttle")
    log_dir_rate = _rate(options, "replica-alter-log-dirs-throttle")
    patience_s = timeout_s(options)
    plan = read_plan(options.required("reassignment-json-file"))
    check_plan(plan)
    with connected(options) as connection:
        ongoing = list_reassignments(connection)
        if ongoing and not options.has("additional"):
            raise PlainError(EXISTING)
        _check_brokers(connection, plan)
        current = current_replicas(connection, plan.replicas)
        check_log_dirs(connection, plan.log_dirs)
        _print_current(connection, current)
        if max(broker_rate, log_dir_rate) > UNLIMITED:
            print(RUN_VERIFY)
        if broker_rate > UNLIMITED:
            moves = partition_moves(ongoing, plan.replicas, current)
            throttle_brokers(connection, moves, broker_rate)
        if log_dir_rate > UNLIMITED:
            throttle_log_dirs(connection, plan.log_dirs, log_dir_rate)
        refused = alter_reassignments(connection, plan.replicas)
        if refused:
            raise PlainError("\n".join(["Error reassigning partition(s):", *refusals(refused)]))
        listed = ",".join(map(str, sorted(plan.replicas)))
        plural = "" if len(plan) == 1 else "s"
        print(f"Successfully started partition reassignment{plural} for {listed}", flush=True)
        if plan.log_dirs:
            check_started(plan.log_dirs, start_moves(connection, plan.log_dirs, patience_s))
    return 0


def refusals(refused: Mapping[TopicPartition, str]) -> Iterable[str]:
    """Return a line for each partition that the cluster refused."""
    return (f"{one}: {message}" for one, message in sorted(refused.items()))


def _rate(options: Parsed, name: str) -> int:
    rate = options.number(name)
    return UNLIMITED if rate is None else rate


def _check_brokers(connection: Connection, plan: Plan) -> None:
    known = {broker.id for broker in connection.brokers()}
    for broker in sorted({broker for one in plan for broker in one.replicas}):
        if broker not in known:
            raise AdminError(f"Unknown broker id {broker}")


def _print_current(
    connection: Connection, current: Mapping[TopicPartition, tuple[int, ...]]
) -> None:
    print("Current partition replica assignment")
    print()
    print(render(current, current_log_dirs(connection, current)))
    print()
    print("Save this to use as the --reassignment-json-file option during rollback", flush=True)
