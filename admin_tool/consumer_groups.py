"""jbod-consumer-groups: list, describe, reset and delete groups, as Kafka's own tool does.

    jbod-consumer-groups --bootstrap-server LIST --list [--state [S,S]] [--type [T,T]]
    jbod-consumer-groups --bootstrap-server LIST --describe --group G | --all-groups
                         [--offsets | --members | --state] [--verbose]
    jbod-consumer-groups --bootstrap-server LIST --reset-offsets --group G | --all-groups
                         --topic T[:0,1] | --all-topics  SCENARIO
                         [--dry-run | --execute] [--export]
    jbod-consumer-groups --bootstrap-server LIST --delete --group G | --all-groups
    jbod-consumer-groups --bootstrap-server LIST --delete-offsets --group G --topic T[:0,1]
    jbod-consumer-groups --validate-regex EXPRESSION

Exit codes: 0 done; 1 wrong usage, failed, or failed for one of the groups; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, DEFAULT_TIMEOUT_MS, Option, Parsed, timeout_ms

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "shift-by"),
    *("from-file", "to-current"),
)

OPTIONS = (
    *COMMON,
    Option(name="list", help="List the groups of consumers."),
    Option(name="describe", help="Describe groups: offsets and lag, members, or state."),
    Option(name="delete", help="Delete groups that have no members, with their offsets."),
    Option(
        name="reset-offsets",
        help="Show the offsets that groups without members would have; set them with --execute.",
    ),
    Option(name="delete-offsets", help="Delete the offsets of a group in topics."),
    Option(
        name="validate-regex",
        value="expression",
        help="Say whether consumers of the newer protocol may subscribe with an expression, which "
        "is one of RE2. No broker is asked.",
    ),
    Option(name="group", value="id", repeatable=True, help="A group; may be repeated."),
    Option(name="all-groups", help="All groups of the cluster."),
    Option(
        name="topic",
        value="topic[:0,1,...]",
        repeatable=True,
        help="A topic, or some of its partitions; may be repeated.",
    ),
    Option(name="all-topics", help="With --reset-offsets: wherever the group has an offset."),
    Option(
        name="state",
        value="state,...",
        is_optional=True,
        help="With --list: show states, of groups in these only: Empty, PreparingRebalance, "
        "CompletingRebalance, Stable, Dead, Assigning, Reconciling. With --describe: the state.",
    ),
    Option(
        name="type",
        value="type,...",
        is_optional=True,
        help="With --list: show types, of groups of these only: Classic, Consumer.",
    ),
    Option(name="offsets", help="With --describe: offsets and lag, the default."),
    Option(name="members", help="With --describe: the members."),
    Option(
        name="verbose",
        help="With --describe: also leader epochs, or what members have, or epochs of the group.",
    ),
    Option(name="dry-run", help="With --reset-offsets: change nothing, the default."),
    Option(name="execute", help="With --reset-offsets: set the offsets."),
    Option(name="export", help="With --reset-offsets: print lines for --from-file."),
    Option(name="to-offset", value="offset", help="Reset to this offset."),
    Option(
        name="to-datetime",
        value="YYYY-MM-DDThh:mm:ss.sss",
        help="Reset to the first record of this time or later; UTC without an offset behind it.",
    ),
    Option(name="by-duration", value="PnDTnHnMnS", help="Reset to the time so long ago."),
    Option(name="to-earliest", help="Reset to the earliest offset."),
    Option(name="to-latest", help="Reset to the latest offset."),
    Option(name="to-current", help="Keep the offset, or start at the latest where there is none."),
    Option(name="shift-by", value="number", help="Move the offset, back if it is negative."),
    Option(
        name="from-file",
        value="file",
        help="Reset to the offsets in a file of lines `topic,partition,offset`, or "
        "`group,topic,partition,offset` for several groups.",
    ),
    Option(
        name="timeout",
        value="ms",
        help=f"How long to wait for groups that load or move. Default: {DEFAULT_TIMEOUT_MS}.",
    ),
)

_GROUPS = {"group", "all-groups"}
PERMITTED = {
    "list": {"state", "type"},
    "describe": {*_GROUPS, "offsets", "members", "state", "verbose"},
    "delete": _GROUPS,
    "reset-offsets": {
        *(*_GROUPS, "topic", "all-topics", "dry-run", "execute", "export"),
        *SCENARIOS,
    },
    "delete-offsets": {"group", "topic"},
    "validate-regex": set(),
}
_MODULES = {
    "list": "listing",
    "describe": "describe",
    "delete": "delete",
    "reset-offsets": "reset",
    "delete-offsets": "delete_offsets",
    "validate-regex": "validate_regex",
}
_ALWAYS = {option.name for option in COMMON} | set(ACTIONS) | {"timeout"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return command.run(TOOL, argv)


def check(options: Parsed) -> str:
    """Return the action asked for.

    Raises:
        UsageError: there is not exactly one, or the options do not go with it.
    """
    actions = [name for name in ACTIONS if options.has(name)]
    if len(actions) != 1:
        listed = ", ".join(f"--{name}" for name in ACTIONS)
        raise UsageError(f"Command must include exactly one action: {listed}")
    (action,) = actions
    if options.words:
        raise UsageError(f"{options.words[0]} is not a recognized option")
    if action != "validate-regex":
        options.require("bootstrap-server")
    for name in options.values:
        if name not in _ALWAYS | PERMITTED[action]:
            raise UsageError(f'Option "[{name}]" can\'t be used with option "[{action}]"')
    timeout_ms(options)
    if action in ("describe", "delete", "reset-offsets"):
        _one_of(options, action, ("all-groups", "group"))
    if action == "describe":
        _check_describe(options)
    elif action == "reset-offsets":
        _check_reset(options)
    elif action == "delete-offsets":
        options.require("group", "topic")
        if len(options.texts("group")) > 1:
            raise UsageError("Option [delete-offsets] takes one group")
    return action


def _check_describe(options: Parsed) -> None:
    views = [name for name in ("members", "offsets", "state") if options.has(name)]
    if len(views) > 1:
        raise UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if options.text("state"):
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_reset(options: Parsed) -> None:
    options.exclude("dry-run", ("execute",))
    if not options.has("from-file") or options.has("topic") or options.has("all-topics"):
        _one_of(options, "reset-offsets", ("all-topics", "topic"))
    _one_of(options, "reset-offsets", SCENARIOS)
    options.number("to-offset")
    options.number("shift-by")


def _one_of(options: Parsed, action: str, names: Sequence[str]) -> None:
    if sum(map(options.has, names)) != 1:
        listed = ", ".join(f"[{name}]" for name in names)
        raise UsageError(f"Option [{action}] takes one of these options: {listed}")


def _run(options: Parsed) -> int:
    action = check(options)
    # Loaded late, so that a wrong command line is answered at once.
    module = import_module(f"{__package__}.group_actions.{_MODULES[action]}")
    return int(module.run(options))


TOOL = Tool(
    summary="This tool helps to list, describe and delete groups of consumers, and to reset their "
    "offsets.",
    options=OPTIONS,
    run=_run,
    failure=lambda error: f"Error: {error}",
)


if __name__ == "__main__":
    sys.exit(main())
