"""jbodlab: a whole cluster on this machine, to be used, broken, and thrown away.

    jbodlab demo [--keep] [--output DIR] [--no-spark] [--json]
    jbodlab up [--brokers N] [--disks N] [--size MIB] [--kind folder|tmpfs|loop|fuse] ...
    jbodlab status | down [--name NAME]
    jbodlab start | stop | kill | restart BROKER ...
    jbodlab inject KIND broker-1/2 [--for 20s] ... | heal [--revive]
    jbodlab list | logs [-f] | ui [--allow-faults] | replay | completion bash
    jbodlab run --fail broker-1/2 -- COMMAND
    jbodlab rehearse PLAN [--output DIR] [--repeat N] [--against kafka] [--junit FILE]

Exit codes: 0 done (`down` also where nothing ran); 1 failed, or for `status` not healthy (a node,
a directory or a leader is missing); 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from fault_injection import kinds
from jbodlab import lab_state
from jbodlab.command_line import INTERRUPTED, Parser, until_closed
from jbodlab.lab_state import ClusterState
from lab import commands
from lab.cluster import disks
from lab.commands import arguments
from lab.errors import LabError
from lab.interrupts import Interrupts
from lab.rehearsal.arguments import WRONG_USE
from lab.rehearsal.arguments import add_arguments as add_rehearse_arguments
from lab.state_files import StateFiles

DEMO_NAME = "demo"
COUNT_MAX = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    interrupts = Interrupts()
    # The servers' user must be able to enter the folders that are made here.
    os.umask(0o022)
    try:
        return until_closed(partial(_run, argv, interrupts))
    except LabError as error:
        print(f"jbodlab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("jbodlab: interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(argv: Sequence[str] | None, interrupts: Interrupts) -> int:
    parser = _parser()
    options, left_over = parser.parse_known_args(argv)
    if left_over:
        # By the command, whose exit code of a wrong call is its own.
        options.called.error(f"unrecognized arguments: {' '.join(left_over)}")
    options.parser = parser
    interrupts.install()
    _check_system(options)
    match options.command:
        case "up":
            return _up(options, interrupts)
        case "status":
            return _status(options)
        case "down":
            return _down(options, interrupts)
        case "rehearse":
            from lab.rehearsal import command

            return command.run(options, interrupts)
        case command if command in commands.TABLE:
            return commands.run(options, interrupts)
        case _:
            from lab import demo

            return demo.run(options, DEMO_NAME, interrupts)


def _check_system(options: argparse.Namespace) -> None:
    looks_only = options.command == "ui" and options.bootstrap
    if sys.platform != "linux" and options.command != "completion" and not looks_only:
        raise LabError(
            f"clusters of jbodlab need Linux, and this is {sys.platform}; `docker-compose up` "
            "starts one in containers"
        )


def _parser() -> argparse.ArgumentParser:
    usage = "jbodlab COMMAND [OPTION ...]"
    parser = Parser(
        prog="jbodlab",
        usage=usage,
        description="A Kafka-compatible cluster on this machine; COMMAND --help tells more.",
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    known = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND [OPTION ...]", prog="jbodlab"
    )
    demo = known.add_parser(
        "demo", help="start a cluster, break a disk, show what happens, stop", allow_abbrev=False
    )
    demo.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    demo.add_argument("--output", metavar="DIR", type=Path, help="where results are kept")
    demo.add_argument("--no-spark", action="store_true", help="leave the replay with Spark out")
    demo.add_argument("--json", action="store_true", help="print the figures as JSON")
    up = known.add_parser("up", help="start a cluster and leave it running", allow_abbrev=False)
    up.add_argument("--brokers", type=_count, default=3, metavar="N", help="default: 3")
    up.add_argument(
        "--disks",
        "--log-dirs",
        type=_count,
        default=3,
        metavar="N",
        help="of each broker, with a log directory each (default: 3)",
    )
    up.add_argument(
        "--kind", choices=disks.KINDS, help="what disks are (default: tmpfs where root may mount)"
    )
    up.add_argument(
        "--port-base", type=arguments.port, metavar="PORT", help="the controller's; then brokers"
    )
    up.add_argument(
        "--mechanism",
        choices=("auto", "preload", "none"),
        default="auto",
        help="what can break single calls of the brokers (default: the first that can)",
    )
    status = known.add_parser(
        "status", help="show brokers, directories and leaders", allow_abbrev=False
    )
    down = known.add_parser("down", help="end a cluster and remove it", allow_abbrev=False)
    down.add_argument("--yes", action="store_true", help="do not ask, though records are lost")
    commands.add_commands(known)
    rehearse = known.add_parser(
        "rehearse", help="let a plan of faults happen under load, and judge it", allow_abbrev=False
    )
    rehearse.wrong_use = WRONG_USE
    add_rehearse_arguments(rehearse)
    for command in (up, demo):
        command.add_argument(
            "--uid", type=int, help="user of the servers, where this is root (default: 1500)"
        )
        command.add_argument(
            "--size",
            "--disk-mb",
            type=_mebibytes,
            dest="disk_mb",
            default=512,
            metavar="SIZE",
            help="of a disk, such as 256MiB; a number is MiB (default: 512)",
        )
        command.add_argument(
            "--plain-folders", action="store_true", help="disks are folders, not mounts"
        )
    for command in (up, status, down):
        arguments.common(command)
    for command in known.choices.values():
        command.set_defaults(called=command)
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= COUNT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {COUNT_MAX}")
    return int(text)


def _mebibytes(text: str) -> int:
    if text.isascii() and text.isdecimal():
        return _count(text)
    try:
        return max(1, kinds.size_bytes(text) >> 20)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _up(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from lab import up_and_down
    from lab.cluster import programs

    user = programs.server_user(options.uid)
    files = StateFiles.open()
    with files.lock(options.name):
        up_and_down.make_room(options.name, files, _tell_nobody if options.json else print)
        shape = up_and_down.Shape(
            brokers=options.brokers,
            log_dirs=options.disks,
            disk_mb=options.disk_mb,
            kind=disks.FOLDER if options.plain_folders else options.kind,
            port_base=options.port_base,
            mechanism=options.mechanism,
        )
        tell = _tell_nobody if options.json else print
        state = up_and_down.up(options.name, user, shape, files, interrupts, tell)
        with interrupts.deferred():
            state = replace(state, owner=None)
            files.write(state)
    if options.json:
        print(lab_state.to_json(state))
    else:
        _print_hints(state)
    return 0


def _tell_nobody(_line: str) -> None:
    """Say nothing: what is printed shall be JSON alone."""


def _print_hints(state: ClusterState) -> None:
    from lab.cluster import programs

    named = "" if state.name == lab_state.DEFAULT_NAME else f" --name {state.name}"
    print(f"\nbootstrap.servers={state.bootstrap}\n")
    word = programs.jbodlab()
    print(f"look:   {word} status{named}")
    print(f"watch:  {word} ui --allow-faults{named}")
    print(f"break:  {word} inject permission broker-1/1{named}")
    print(f"heal:   {word} heal --revive{named}")
    print(f"end:    {word} down{named}")


def _status(options: argparse.Namespace) -> int:
    from lab import status
    from lab.commands import clusters

    files = StateFiles.open()
    found = status.look(clusters.read(files, options.name), lab_state.journal_file(files.directory))
    clusters.show(options.json, found.to_json(), found.text())
    return 0 if found.is_healthy else 1


def _down(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from lab import up_and_down

    files = StateFiles.open()
    tell = _tell_nobody if options.json else print
    problems: list[str] = []
    _ask(options, files)
    with interrupts.deferred():
        with files.lock(options.name):
            was_up = files.read(options.name) is not None or files.root(options.name).exists()
            if was_up:
                problems += up_and_down.down(options.name, files)
        if not was_up:
            tell(f"no cluster named {options.name} is up")
        elif not problems:
            tell(f"cluster {options.name} ended and removed")
        ended = was_up and not problems
        problems += up_and_down.remove_leftovers(files, tell)
    if options.json:
        print(json.dumps({"name": options.name, "ended": ended, "problems": problems}))
    for problem in problems:
        print(f"jbodlab: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _ask(options: argparse.Namespace, files: StateFiles) -> None:
    """Ask before records are deleted that nobody can make again; the demo's anybody can."""
    from lab import up_and_down

    state = files.read(options.name)
    if state is None or options.yes or options.name == DEMO_NAME:
        return
    count, size = up_and_down.records_kept(state)
    if not size:
        return
    question = f"{count} partitions with {size:,} bytes of records would be deleted"
    if not sys.stdin.isatty():
        raise LabError(f"{question}; say --yes to end cluster {options.name} all the same")
    print(f"{question}. End cluster {options.name}? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise LabError(f"cluster {options.name} goes on")


if __name__ == "__main__":
    sys.exit(main())
