"""jbod-fault: break log directories, heal them, list what is broken.

    jbod-fault inject KIND PATH [--user UID|NAME]
    jbod-fault inject KIND --broker N --dir K [--name CLUSTER]
    jbod-fault heal ID | --all | --under PATH
    jbod-fault list

Exit codes: 0 done; 1 refused or failed, with one line on the standard error output.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fault_injection import faults, operations
from fault_injection.journal import Fault, FaultError, Journal, open_journal, read_faults
from jbodlab import lab_state
from jbodlab.command_line import Parser
from jbodlab.errors import DecodeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(argv)
    try:
        match options.command:
            case "inject":
                return _inject(options)
            case "heal":
                return _heal(options)
            case _:
                return _list(options)
    except FaultError as error:
        print(f"jbod-fault: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="jbod-fault", description="Break log directories and heal them.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    inject = commands.add_parser("inject", help="break a directory", allow_abbrev=False)
    inject.add_argument(
        "kind",
        choices=faults.KINDS,
        metavar="KIND",
        help="chmod000; readonly: chmod -R a-w; file: replaced by a file; delete: moved aside",
    )
    inject.add_argument("path", nargs="?", metavar="PATH", help="the log directory")
    inject.add_argument("--broker", type=int, metavar="N", help="broker of a `jbodlab up` cluster")
    inject.add_argument(
        "--dir", metavar="K", help="its log directory: its number in log.dirs from 1, or its path"
    )
    inject.add_argument("--name", default=lab_state.DEFAULT_NAME, help="name of that cluster")
    inject.add_argument(
        "--user", metavar="UID|NAME", help="user of the broker (default: the directory's owner)"
    )
    heal = commands.add_parser("heal", help="undo faults", allow_abbrev=False)
    which = heal.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", type=int, metavar="ID", help="number of the fault")
    which.add_argument("--all", action="store_true", help="every open fault")
    which.add_argument("--under", metavar="PATH", help="every open fault in PATH and below")
    listing = commands.add_parser("list", help="show open faults", allow_abbrev=False)
    for command in (inject, heal, listing):
        command.add_argument(
            "--journal", metavar="FILE", type=Path, help="journal file (default: in the state dir)"
        )
    return parser


def _inject(options: argparse.Namespace) -> int:
    path = _named_directory(options)
    with open_journal(_journal_path(options)) as journal:
        fault = operations.inject(options.kind, path, options.user, journal)
    print(
        f"fault {fault.fault_id} injected: {fault.kind} on {fault.path}, proved as uid {fault.uid}"
    )
    return 0


def _heal(options: argparse.Namespace) -> int:
    with open_journal(_journal_path(options)) as journal:
        if options.id is not None:
            print(operations.heal(options.id, journal))
            return 0
        wanted = _selected(journal, options.under)
        if not wanted:
            print("no open faults")
        return max((_heal_one(fault, journal) for fault in wanted), default=0)


def _selected(journal: Journal, under: str | None) -> list[Fault]:
    """Return open faults, the newest first, so that they are undone in reverse order."""
    newest_first = journal.open_faults()[::-1]
    if under is None:
        return newest_first
    top = Path(os.path.realpath(under))
    return [fault for fault in newest_first if top == fault.path or top in fault.path.parents]


def _heal_one(fault: Fault, journal: Journal) -> int:
    try:
        print(operations.heal(fault.fault_id, journal))
    except FaultError as error:
        print(f"jbod-fault: {error}", file=sys.stderr)
        return 1
    return 0


def _list(options: argparse.Namespace) -> int:
    found = read_faults(_journal_path(options))
    if not found:
        print("no open faults")
    for fault in found:
        state = "" if fault.injected_ns else "  (interrupted; heal restores what was done)"
        print(f"{fault.fault_id:>4}  {fault.kind:<9} {fault.since}  {fault.path}{state}")
    return 0


def _journal_path(options: argparse.Namespace) -> Path:
    if options.journal is not None:
        return Path(options.journal)
    return lab_state.journal_file(_state_dir())


def _state_dir() -> Path:
    return lab_state.state_dir(os.environ, os.geteuid())


def _named_directory(options: argparse.Namespace) -> str:
    """Return the PATH, or the directory that --broker and --dir name."""
    if options.path is not None:
        if options.broker is not None or options.dir is not None:
            raise FaultError("give either PATH or --broker and --dir")
        return str(options.path)
    if options.broker is None or options.dir is None:
        raise FaultError("give PATH, or both --broker and --dir")
    node = _broker(options.name, options.broker)
    if options.dir.isdecimal():
        number = int(options.dir)
        if not 1 <= number <= len(node.log_dirs):
            raise FaultError(
                f"broker {node.node_id} has log directories 1 to {len(node.log_dirs)}, not {number}"
            )
        return node.log_dirs[number - 1]
    wanted = str(Path(options.dir))
    if wanted not in node.log_dirs:
        raise FaultError(f"{wanted} is none of broker {node.node_id}'s: {', '.join(node.log_dirs)}")
    return wanted


def _broker(name: str, broker_id: int) -> lab_state.NodeState:
    file = lab_state.cluster_file(_state_dir(), name)
    try:
        state = lab_state.from_json(file.read_text("utf-8"))
    except FileNotFoundError:
        raise FaultError(f"no cluster named {name} is up, {file} is not there") from None
    except (OSError, DecodeError) as error:
        raise FaultError(f"cannot read {file}: {error}") from error
    for node in state.brokers:
        if node.node_id == broker_id:
            return node
    known = ", ".join(str(node.node_id) for node in state.brokers)
    raise FaultError(f"cluster {name} has the brokers {known}, not {broker_id}")


if __name__ == "__main__":
    sys.exit(main())
