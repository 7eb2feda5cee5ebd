"""jbod-log-dirs balance: as many bytes in each log directory of a broker as in its others.

Nothing is kept between two calls: what is under way is what the brokers tell. So --status shows,
and --cancel ends, every move between directories, whoever began it. Offline directories take no
part, and cordoned ones are left as they are; full ones only give.
"""

from __future__ import annotations

import sys

from admin_tool.errors import AdminError, UsageError
from admin_tool.log_dir_actions.move_plan import DirState, Move, balance, spread_bytes
from admin_tool.log_dir_actions.planning import (
    begin,
    broker_dirs,
    dir_states,
    shown_effect,
    shown_plan,
    standstill,
    told,
    wait_until_moved,
)
from admin_tool.log_dir_actions.table import BrokerDirs, moves, render, size_text
from admin_tool.options import Parsed
from admin_tool.reassignment.moves import DEFAULT_TIMEOUT_MS, start_moves, why_refused
from admin_tool.requests.configs import compacted_topics
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.log_dirs import Replica

ACTIONS = ("plan", "execute", "status", "cancel")


def run(options: Parsed) -> int:
    """Carry out one action; returns the exit code."""
    chosen = [name for name in ACTIONS if options.has(name)]
    if len(chosen) != 1:
        listed = ", ".join(f"--{name}" for name in ACTIONS)
        raise UsageError(f"balance must include exactly one action: {listed}")
    if options.has("wait"):
        options.require("execute")
    broker = options.number("broker")
    with connected(options) as connection:
        found = broker_dirs(connection, broker)
        match chosen[0]:
            case "status":
                _show_status(connection, found)
            case "cancel":
                return _cancel(connection, found)
            case action:
                plans = [(one, *_plan(one)) for one in _movable(found)]
                print("\n\n".join(shown_plan(*plan) for plan in plans), flush=True)
                if action == "plan":
                    print("Nothing is moved without --execute.")
                else:
                    return _execute(connection, plans, waits=options.has("wait"))
    return 0


def _movable(found: list[BrokerDirs]) -> list[BrokerDirs]:
    """Leave out brokers that move nothing, and say so.

    Raises:
        AdminError: there is no other one.
    """
    reasons = {one.broker: standstill(one) for one in found}
    left_out = [reason for reason in reasons.values() if reason is not None]
    if len(left_out) == len(found):
        raise AdminError("; ".join(left_out))
    for reason in left_out:
        print(f"Left out: {reason}")
    return [one for one in found if reasons[one.broker] is None]


def _plan(one: BrokerDirs) -> tuple[list[DirState], list[Move]]:
    cordoned = {log_dir.path for log_dir in one.log_dirs if log_dir.is_cordoned}
    dirs = [each for each in dir_states(one) if each.path not in cordoned]
    return dirs, balance(dirs)


def _execute(
    connection: Connection,
    plans: list[tuple[BrokerDirs, list[DirState], list[Move]]],
    *,
    waits: bool,
) -> int:
    targets: dict[Replica, str] = {}
    refused: dict[Replica, str] = {}
    for one, _, plan in plans:
        begun, refused_here = begin(connection, one.broker, plan)
        targets |= begun
        refused |= refused_here
    if not targets and not refused:
        print("Everything is even enough.")
    elif waits:
        refused |= wait_until_moved(connection, targets)
        for one, _, plan in plans:
            if plan:
                print(shown_effect(one, *broker_dirs(connection, one.broker)))
    return told(refused)


def _show_status(connection: Connection, found: list[BrokerDirs]) -> None:
    topics = compacted_topics(connection, (move.topic for move in moves(found)))
    print(render(found, compacted=topics))
    for one in found:
        held = [each.held_bytes for each in dir_states(one)]
        under_way = len(moves([one]))
        print(
            f"broker {one.broker}: {under_way} move{'' if under_way == 1 else 's'} under way; "
            f"afterwards the fullest directory has {size_text(spread_bytes(held))} more than the "
            "emptiest"
        )


def _cancel(connection: Connection, found: list[BrokerDirs]) -> int:
    # A move ends by being sent where the replica is already.
    targets = {
        Replica(each.broker, each.topic, each.partition): each.source
        for each in moves(found)
        if each.source is not None
    }
    if not targets:
        print("No move between log directories is under way.")
        return 0
    refused = start_moves(connection, targets, DEFAULT_TIMEOUT_MS / 1000)
    count = len(targets) - len(refused)
    print(f"Cancelled {count} move{'' if count == 1 else 's'}.", flush=True)
    for replica, code in refused.items():
        reason = why_refused(replica, targets[replica], code)
        print(f"the move of {replica} was not cancelled: {reason}", file=sys.stderr)
    return 1 if refused else 0
