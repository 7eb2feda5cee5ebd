"""Heals a fault at the end of its length: the program that `timer` starts.

    python -m fault_injection heal ID --at NS --journal FILE

People use `jbodlab inject`, `heal` and `faults`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from fault_injection import operations, process_control, timer
from fault_injection.errors import FaultError
from fault_injection.journal import open_journal


def main(argv: Sequence[str] | None = None) -> int:
    """Wait and heal; returns the exit code."""
    options = _parser().parse_args(argv)
    timer.wait_until(options.at)
    try:
        with open_journal(options.journal) as journal:
            healing = operations.heal(options.id, journal, start=process_control.start)
            print(operations.healed_line(journal.faults[options.id], healing))
    except FaultError as error:
        print(f"fault {options.id}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fault_injection", allow_abbrev=False)
    heal = parser.add_subparsers(required=True).add_parser("heal", allow_abbrev=False)
    heal.add_argument("id", type=int)
    heal.add_argument("--at", type=int, required=True, help="moment of the monotonic clock, in ns")
    heal.add_argument("--journal", type=Path, required=True)
    return parser


if __name__ == "__main__":
    sys.exit(main())
