"""jbod-fault: break log directories and brokers, heal them, list what is broken.

    jbod-fault inject KIND PATH [--user UID|NAME] [--for 20s] [--calls sync,write] ...
    jbod-fault inject KIND --broker N [--dir K] [--name CLUSTER] ...
    jbod-fault check KIND ...              can this be made here? changes nothing
    jbod-fault kinds                       every kind, what makes it, what it may be told
    jbod-fault heal ID | --all | --under PATH
    jbod-fault list

Exit codes: 0 done; 1 refused or failed, with one line on the standard error output.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fault_injection import kinds, operations, process_control, registry, targets, timer
from fault_injection.errors import FaultError
from fault_injection.fuse import disk
from fault_injection.journal import Fault, Journal, open_journal, read_faults
from fault_injection.mechanism import Target
from jbodlab import lab_state
from jbodlab.command_line import Parser, until_closed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    return until_closed(partial(_run, argv))


def _run(argv: Sequence[str] | None) -> int:
    options = _parser().parse_args(argv)
    try:
        match options.command:
            case "inject":
                return _inject(options)
            case "check":
                return _check(options)
            case "kinds":
                return _kinds()
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
    check = commands.add_parser("check", help="tell whether it can be broken", allow_abbrev=False)
    for command in (inject, check):
        command.add_argument("kind", metavar="KIND", help=", ".join(kinds.KINDS))
        command.add_argument("path", nargs="?", metavar="PATH", help="the log directory")
        command.add_argument(
            "--broker", type=int, metavar="N", help="broker of a `jbodlab up` cluster"
        )
        command.add_argument(
            "--dir",
            metavar="K",
            help="its log directory: its number in log.dirs from 1, or its path",
        )
        command.add_argument("--name", default=lab_state.DEFAULT_NAME, help="name of that cluster")
        command.add_argument(
            "--user", metavar="UID|NAME", help="user of the broker (default: the directory's owner)"
        )
        for name, (metavar, text) in kinds.PARAMETERS.items():
            command.add_argument(f"--{name}", metavar=metavar, help=text, dest=f"word_{name}")
    commands.add_parser("kinds", help="show all kinds", allow_abbrev=False)
    heal = commands.add_parser("heal", help="undo faults", allow_abbrev=False)
    which = heal.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", type=int, metavar="ID", help="number of the fault")
    which.add_argument("--all", action="store_true", help="every open fault")
    which.add_argument("--under", metavar="PATH", help="every open fault in PATH and below")
    which.add_argument("--name", metavar="CLUSTER", help="every open fault of this cluster")
    listing = commands.add_parser("list", help="show open faults", allow_abbrev=False)
    listing.add_argument("--name", metavar="CLUSTER", help="those of this cluster only")
    for command in (inject, check, heal, listing):
        command.add_argument(
            "--journal", metavar="FILE", type=Path, help="journal file (default: in the state dir)"
        )
    return parser


def _inject(options: argparse.Namespace) -> int:
    spec, target = _wanted(options)
    with open_journal(_journal_path(options)) as journal:
        fault = operations.inject(
            spec, target, journal, start=process_control.start, set_timer=timer.spawn
        )
    until = "" if fault.length_s is None else f", heals by itself after {fault.length_s:g} s"
    print(
        f"fault {fault.fault_id} injected: {fault.kind} on {fault.path}, proved as uid {fault.uid}"
        f"{until}"
    )
    return 0


def _check(options: argparse.Namespace) -> int:
    spec, target = _wanted(options)
    print(f"{spec.kind} on {target.path}: made by {registry.choose(spec, target)}")
    return 0


def _kinds() -> int:
    for kind in kinds.KINDS.values():
        told = " ".join(f"--{name}" for name in ("for", *kind.parameters))
        print(f"{kind.name:<15} {kind.meaning}")
        print(f"{'':<15} {' '.join(kind.mechanisms)}; {told}")
    return 0


def _wanted(options: argparse.Namespace) -> tuple[kinds.FaultSpec, Target]:
    words = {name: getattr(options, f"word_{name}") for name in kinds.PARAMETERS}
    spec = kinds.spec(options.kind, words)
    if options.path is not None:
        if options.broker is not None or options.dir is not None:
            raise FaultError("give either PATH or --broker and --dir")
        patient = targets.patient_with(_state_dir(), options.path)
        return spec, operations.directory_target(options.path, options.user, patient)
    is_of_broker = kinds.KINDS[spec.kind].scope is kinds.Scope.BROKER
    if options.broker is None or (options.dir is None) != is_of_broker:
        raise FaultError(
            "give --broker without --dir"
            if is_of_broker
            else "give PATH, or both --broker and --dir"
        )
    state = targets.cluster(_state_dir(), options.name)
    node = targets.broker(state, options.broker)
    patient = targets.patient(node, state)
    if options.dir is None:
        return spec, operations.broker_target(patient, state.uid, state.gid)
    path = targets.log_dir(node, options.dir)
    return spec, operations.directory_target(path, options.user, patient)


def _heal(options: argparse.Namespace) -> int:
    with open_journal(_journal_path(options)) as journal:
        if options.id is not None:
            healing = operations.heal(options.id, journal, start=process_control.start)
            print(operations.healed_line(journal.faults[options.id], healing))
            return 0
        under = options.under
        if options.name is not None:
            under = targets.cluster(_state_dir(), options.name).root
        wanted = _selected(journal.open_faults(), under)
        if not wanted:
            print("no open faults")
        return max((_heal_one(fault, journal) for fault in wanted), default=0)


def _selected(found: Sequence[Fault], under: str | None) -> list[Fault]:
    """Return open faults, the newest first, so that they are undone in reverse order."""
    newest_first = list(found[::-1])
    if under is None:
        return newest_first
    top = Path(os.path.realpath(under))
    return [fault for fault in newest_first if top == fault.path or top in fault.path.parents]


def _heal_one(fault: Fault, journal: Journal) -> int:
    try:
        healing = operations.heal(fault.fault_id, journal, start=process_control.start)
        print(operations.healed_line(fault, healing))
    except FaultError as error:
        print(f"jbod-fault: {error}", file=sys.stderr)
        return 1
    return 0


def _list(options: argparse.Namespace) -> int:
    found = read_faults(_journal_path(options))
    if options.name is not None:
        found = _selected(found, targets.cluster(_state_dir(), options.name).root)[::-1]
    if not found:
        print("no open faults")
    for fault in found:
        if note := disk.remove_dead(fault.path):
            print(f"jbod-fault: {note}", file=sys.stderr)
        state = "" if fault.injected_ns else "  (interrupted; heal restores what was done)"
        print(f"{fault.fault_id:>4}  {fault.kind:<14} {fault.since}  {fault.path}{state}")
    return 0


def _journal_path(options: argparse.Namespace) -> Path:
    if options.journal is not None:
        return Path(options.journal)
    return lab_state.journal_file(_state_dir())


def _state_dir() -> Path:
    return lab_state.state_dir(os.environ, os.geteuid())


if __name__ == "__main__":
    sys.exit(main())
