"""jbod-log-dirs drain: everything in one log directory moves to the broker's others.

Without --execute the plan is only shown. It is refused, with figures, when there is no room for it.
Replicas that the broker refuses to move stay, with a sentence for each; all others go.
"""

from __future__ import annotations

from admin_tool.errors import AdminError
from admin_tool.log_dir_actions.move_plan import Move, drain
from admin_tool.log_dir_actions.planning import (
    begin,
    broker_dirs,
    dir_states,
    immovable,
    shown_effect,
    shown_plan,
    standstill,
    told,
    wait_until_moved,
)
from admin_tool.log_dir_actions.table import BrokerDirs, moves, state_of
from admin_tool.options import Parsed
from admin_tool.requests.connection import connected
from jbodlab.ids import TopicPartition


def run(options: Parsed) -> int:
    """Show the plan, and carry it out where that is asked for; returns the exit code."""
    broker = options.number("broker")
    path = options.required("dir")
    if options.has("wait"):
        options.require("execute")
    with connected(options) as connection:
        (one,) = broker_dirs(connection, broker)
        _check(one, path)
        reason = standstill(one)
        if reason is not None:
            raise AdminError(reason)
        dirs = dir_states(one)
        plan = [*_returning(one, path), *drain(dirs, path)]
        staying = immovable(one, path)
        print(shown_plan(one, dirs, plan))
        _say_what_is_left(one, path)
        if not options.has("execute"):
            told(staying)
            print("Nothing is moved without --execute.")
            return 0
        targets, refused = begin(connection, one.broker, plan)
        if options.has("wait"):
            refused |= wait_until_moved(connection, targets)
            print(shown_effect(one, *broker_dirs(connection, broker)))
    return told(staying | refused)


def _check(one: BrokerDirs, path: str) -> None:
    known = {each.path: each for each in one.log_dirs}
    if path not in known:
        raise AdminError(
            f"{path} is no log directory of broker {one.broker}: {','.join(sorted(known))}"
        )
    if known[path].error_code:
        state = state_of(known[path], one.details.get(path))
        raise AdminError(f"{path} of broker {one.broker} cannot be read, it is {state}")


def _returning(one: BrokerDirs, path: str) -> list[Move]:
    """Return the ends of moves into the directory: their replicas stay where they are."""
    return [
        Move(TopicPartition(each.topic, each.partition), path, each.source, each.total_bytes)
        for each in moves([one])
        if each.target == path and each.source is not None
    ]


def _say_what_is_left(one: BrokerDirs, path: str) -> None:
    leaving = [each.name for each in moves([one]) if each.source == path]
    if leaving:
        print(f"On their way out already: {', '.join(leaving)}")
    if not next(each for each in one.log_dirs if each.path == path).is_cordoned:
        print(f"New replicas may still be placed in {path}; cordon it to keep them out.")
