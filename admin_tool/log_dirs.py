"""jbod-log-dirs verify: read log directories of this machine, and find damage.

Exit codes: 0 done; 1 wrong usage or failed, or damage was found; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.log_dir_actions import verify
from admin_tool.options import COMMON, Option, Parsed

OPTIONS = (
    *COMMON,
    Option(name="dir", value="path[,path...]", help="The log directories."),
    Option(name="topic-list", value="a,b,...", help="The topics to read. Default: all."),
    Option(name="rate", value="MB/s", help="How fast to read. Default: 50."),
    Option(name="json", help="Print the result as JSON."),
    Option(name="broker", value="id", help="Not for verify."),
    Option(name="mend", help="Have damaged replicas copied from their leaders."),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return command.run(TOOL, argv)


def _run(options: Parsed) -> int:
    if options.words != ("verify",):
        raise UsageError("expected the command verify")
    if options.has("broker"):
        raise UsageError('Option "[broker]" can\'t be used with option "[verify]"')
    return verify.run(options)


TOOL = Tool(
    summary="This tool reads log directories and finds damage.",
    options=OPTIONS,
    run=_run,
    # To verify is to read, and asks nobody; to mend is about a cluster.
    asks_cluster=lambda options: options.has("mend"),
)


if __name__ == "__main__":
    sys.exit(main())
