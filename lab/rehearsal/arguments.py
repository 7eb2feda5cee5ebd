"""What `jbodlab rehearse` is told; apart from the command, which needs much more to be imported."""

from __future__ import annotations

import argparse
from pathlib import Path

REPEATS_MAX = 1000
KAFKA = "kafka"
WRONG_USE = 64
"""Exit code of a wrong plan, and of a wrong call: 1 and 2 are verdicts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command is told."""
    parser.add_argument("plan", nargs="?", metavar="PLAN", help="a YAML file, or a shipped plan")
    parser.add_argument("--list", action="store_true", help="show the shipped plans")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where results are kept")
    parser.add_argument("--repeat", type=_times, default=1, metavar="N", help="run it N times")
    parser.add_argument(
        "--against", choices=(KAFKA,), help="run it on Apache Kafka as well, and compare"
    )
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="two result.json side by side"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the verdict as JUnit XML")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--check", action="store_true", help="read the plan, run nothing")
    parser.add_argument(
        "--i-know-this-cluster-is-mine",
        dest="is_mine",
        action="store_true",
        help="break an attached cluster that is not on this machine",
    )


def _times(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= REPEATS_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {REPEATS_MAX}")
    return int(text)
