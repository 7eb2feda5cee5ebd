"""The arguments of `jbodlab rehearse`; apart from the command, which imports much more."""

from __future__ import annotations

import argparse
from pathlib import Path

REPEATS_MAX = 1000
KAFKA = "kafka"
WRONG_USE = 64
"""Exit code of a wrong plan, and of a wrong call: 1 and 2 are verdicts."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("plan", nargs="?", metavar="PLAN", help="a YAML file, or a shipped plan")
    parser.add_argument("--list", action="store_true", help="list the shipped plans")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="folder for the results (default: a new one)"
    )
    parser.add_argument("--repeat", type=_times, default=1, metavar="N", help="run it N times")
    parser.add_argument(
        "--against", choices=(KAFKA,), help="run it on Apache Kafka as well, and compare"
    )
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="compare two result.json"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the verdict as JUnit XML")
    parser.add_argument("--check", action="store_true", help="read the plan, run nothing")
    parser.add_argument(
        "--i-know-this-cluster-is-mine",
        dest="is_mine",
        action="store_true",
        help="break an attached cluster that is not on this machine",
    )


def _times(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= REPEATS_MAX):
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {REPEATS_MAX}, got {text!r}")
    return int(text)
