"""jbodlab: a whole cluster on this machine, to be used, broken, and thrown away.

    jbodlab demo [--keep] [--output DIR] [--no-spark]
    jbodlab up | status | down [--name NAME]

Exit codes: 0 done (`down` also where nothing ran); 1 failed, or for `status` not healthy; 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jbodlab import lab_state
from jbodlab.command_line import Parser
from jbodlab.lab_state import ClusterState
from lab.errors import LabError
from lab.interrupts import Interrupts

DEMO_NAME = "demo"
INTERRUPTED = 130
COUNT_MAX = 100_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    interrupts = Interrupts()
    options = _parser().parse_args(argv)
    interrupts.install()
    # The servers' user must be able to enter the folders that are made here.
    os.umask(0o022)
    try:
        match options.command:
            case "up":
                return _up(options, interrupts)
            case "status":
                return _status(options)
            case "down":
                return _down(options, interrupts)
            case _:
                from lab import demo

                return demo.run(options, DEMO_NAME, interrupts)
    except LabError as error:
        print(f"jbodlab: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read the output is gone; what is printed at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("jbodlab: interrupted", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="jbodlab", description="A Kafka-compatible cluster on this machine.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo", help="start a cluster, break a disk, show what happens, stop", allow_abbrev=False
    )
    demo.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    demo.add_argument("--output", metavar="DIR", type=Path, help="where results are kept")
    demo.add_argument("--no-spark", action="store_true", help="leave the replay with Spark out")
    up = commands.add_parser("up", help="start a cluster and leave it running", allow_abbrev=False)
    up.add_argument("--brokers", type=_count, default=3, metavar="N", help="default: 3")
    up.add_argument("--log-dirs", type=_count, default=3, metavar="N", help="each (default: 3)")
    status = commands.add_parser(
        "status", help="show brokers, directories and leaders", allow_abbrev=False
    )
    down = commands.add_parser("down", help="end a cluster and remove it", allow_abbrev=False)
    for command in (up, demo):
        command.add_argument(
            "--uid", type=int, help="user of the servers, where this is root (default: 1500)"
        )
        command.add_argument(
            "--disk-mb", type=_count, default=512, metavar="N", help="size of a disk (default: 512)"
        )
        command.add_argument(
            "--plain-folders", action="store_true", help="disks are folders, not mounts"
        )
    for command in (up, status, down):
        command.add_argument(
            "--name",
            type=_name,
            default=lab_state.DEFAULT_NAME,
            help=f"name of the cluster (default: {lab_state.DEFAULT_NAME}; the demo's: "
            f"{DEMO_NAME})",
        )
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= COUNT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {COUNT_MAX}")
    return int(text)


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError("letters, digits, - and _, at most 41 of them")
    return text


def _up(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from lab import up_and_down
    from lab.cluster import programs
    from lab.state_files import StateFiles

    user = programs.server_user(options.uid)
    files = StateFiles.open()
    with files.lock(options.name):
        up_and_down.make_room(options.name, files, print)
        shape = up_and_down.Shape(
            brokers=options.brokers,
            log_dirs=options.log_dirs,
            disk_mb=options.disk_mb,
            mounts=not options.plain_folders,
        )
        state = up_and_down.up(options.name, user, shape, files, interrupts, print)
        with interrupts.deferred():
            state = replace(state, owner=None)
            files.write(state)
    _print_hints(state)
    return 0


def _print_hints(state: ClusterState) -> None:
    named = "" if state.name == lab_state.DEFAULT_NAME else f" --name {state.name}"
    print(f"\nbootstrap.servers={state.bootstrap}\n")
    print(f"look:   jbodlab status{named}")
    print(f"break:  jbod-fault inject chmod000 --broker 1 --dir 1{named}")
    print("heal:   jbod-fault heal --all")
    print(f"end:    jbodlab down{named}")


def _status(options: argparse.Namespace) -> int:
    from lab import status
    from lab.state_files import StateFiles

    state = StateFiles.open().read(options.name)
    if state is None:
        raise LabError(f"no cluster named {options.name} is up")
    healthy, text = status.report(state)
    print(text)
    return 0 if healthy else 1


def _down(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from lab import up_and_down
    from lab.state_files import StateFiles

    files = StateFiles.open()
    problems: list[str] = []
    with interrupts.deferred():
        with files.lock(options.name):
            if files.read(options.name) is None and not files.root(options.name).exists():
                print(f"no cluster named {options.name} is up")
            else:
                problems += up_and_down.down(options.name, files)
                if not problems:
                    print(f"cluster {options.name} ended and removed")
        problems += up_and_down.remove_leftovers(files, print)
    for problem in problems:
        print(f"jbodlab: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
