"""jbod-reassign-partitions: move replicas between brokers and between log directories.

As Kafka's own tool, texts included. Exit codes: 0 done; 1 wrong usage or failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import AdminError, PlainError, UsageError
from admin_tool.options import COMMON, Option, Parsed

ACTIONS = ("generate", "execute", "verify", "cancel", "list")

OPTIONS = (
    *COMMON,
    Option(
        name="bootstrap-controller",
        value="host:port,...",
        help="Not served: this tool speaks to brokers only.",
    ),
    Option(
        name="generate",
        help="Print the current assignment of topics, and a proposal that spreads them over "
        "brokers. Changes nothing.",
    ),
    Option(name="execute", help="Start what the reassignment file says."),
    Option(
        name="verify",
        help="Tell how far what the reassignment file says has come; once all of it is done, "
        "remove the throttles.",
    ),
    Option(name="cancel", help="Stop what the reassignment file says, and remove the throttles."),
    Option(name="list", help="List the reassignments under way."),
    Option(
        name="reassignment-json-file",
        value="file",
        help='What shall be where: {"version":1,"partitions":[{"topic":"foo","partition":0,'
        '"replicas":[1,2],"log_dirs":["/mnt/d1","any"]}]}. log_dirs may be left out; "any" leaves '
        "the choice of the directory to the broker.",
    ),
    Option(
        name="topics-to-move-json-file",
        value="file",
        help='The topics of --generate: {"version":1,"topics":[{"topic":"foo"}]}.',
    ),
    Option(name="broker-list", value="0,1,...", help="The brokers of --generate."),
    Option(name="disable-rack-aware", help="With --generate: pay no heed to racks."),
    Option(
        name="additional",
        help="With --execute: in addition to reassignments under way. Also changes their throttle.",
    ),
    Option(
        name="throttle",
        value="bytes/s",
        help="With --execute: limit of the traffic between brokers that moves replicas.",
    ),
    Option(
        name="replica-alter-log-dirs-throttle",
        value="bytes/s",
        help="With --execute: limit of the copying between a broker's log directories.",
    ),
    Option(
        name="timeout",
        value="ms",
        help="With --execute and --cancel: how long to try to start moves between log "
        "directories. Default: 10000.",
    ),
    Option(name="preserve-throttles", help="With --verify and --cancel: let the throttles be."),
)

_ALWAYS = {"bootstrap-server", "command-config", "help", "version"}
_REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_PERMITTED = {
    "generate": ("disable-rack-aware",),
    "execute": ("additional", "throttle", "replica-alter-log-dirs-throttle", "timeout"),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout", "bootstrap-controller"),
    "list": ("bootstrap-controller",),
}


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
    controller = options.has("bootstrap-controller")
    if controller and options.has("bootstrap-server"):
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not controller and not options.has("bootstrap-server"):
        raise UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    options.require(*_REQUIRED[action])
    for name in options.values:
        if name not in {action, *_ALWAYS, *_REQUIRED[action], *_PERMITTED[action]}:
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _run(options: Parsed) -> int:
    action = check(options)
    if options.has("bootstrap-controller"):
        raise AdminError(
            "--bootstrap-controller is not served: name brokers with --bootstrap-server"
        )
    # Loaded late, so that a wrong command line is answered at once.
    match action:
        case "generate":
            from admin_tool.reassignment import generate

            return generate.run(options)
        case "execute":
            from admin_tool.reassignment import execute

            return execute.run(options)
        case "verify":
            from admin_tool.reassignment import verify

            return verify.run(options)
        case "cancel":
            from admin_tool.reassignment import cancel

            return cancel.run(options)
        case _:
            from admin_tool.reassignment import listing

            return listing.run(options)


def _failure(error: AdminError) -> str:
    return str(error) if isinstance(error, PlainError) else f"Error: {error}"


TOOL = Tool(
    summary="This tool helps to move topic partitions between replicas.",
    options=OPTIONS,
    run=_run,
    failure=_failure,
    failures_to_stdout=True,
)


if __name__ == "__main__":
    sys.exit(main())
