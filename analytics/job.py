"""`jbod-replay`: a metadata log directory in, Parquet tables and a short report out.

The order of steps: look at the files, read and decode them once, fold states per key, write the
tables, ask the tables for the report.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession

from analytics import tables as t
from analytics import what_if
from analytics.as_of import AS_OF, DIFF, as_of, difference, read_tables, resolve, write_beside
from analytics.as_of_text import as_of_text, difference_text
from analytics.errors import ReplayInputError
from analytics.former_run import load_former
from analytics.layout import find_metadata_dir, read_layout
from analytics.output import OutputDir
from analytics.questions.offline_log import parse_moment
from analytics.run import ReplayResult, run
from analytics.session import SMALL_LOG_BYTES, end_children, prepare, start_session
from jbodlab.command_line import Parser

INTERRUPTED = 130
WHAT_IF = "what-if"
"""First argument that asks a question in place of a replay."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line tool and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [WHAT_IF]:
        return what_if.main(given[1:])
    parser = Parser(
        prog="jbod-replay",
        description="Replay a KRaft metadata log into Parquet tables, and print a short report. "
        "`jbod-replay what-if` asks what a failure would do.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--input",
        type=Path,
        metavar="DIR",
        help="__cluster_metadata-0, or the log directory that contains it; needed unless a "
        "question is asked of tables that exist",
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="tables go to DIR/<table>/")
    parser.add_argument(
        "--full",
        action="store_true",
        help="read the whole log, also where a former run into the same output can be gone on from",
    )
    question = parser.add_mutually_exclusive_group()
    question.add_argument(
        "--as-of",
        metavar="MOMENT",
        help="print what the cluster was at an offset or time, and write it to DIR/as_of/<table>/",
    )
    question.add_argument(
        "--diff",
        nargs=2,
        metavar="MOMENT",
        help="print what differs between two offsets or times, and write it to DIR/diff/",
    )
    options = parser.parse_args(given)
    moments = options.diff or ([options.as_of] if options.as_of else [])
    if options.input is None and not moments:
        parser.error("the following arguments are required: --input")
    try:
        wanted = [parse_moment(text) for text in moments]
        if options.input is not None:
            _print_result(replay(options.input, options.output, full=options.full))
        if moments:
            print(answer(options.output, *wanted), end="")
    except ReplayInputError as error:
        print(f"jbod-replay: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # A virtual machine that was still starting has heard nothing, and nobody else ends it.
        end_children()
        return INTERRUPTED
    return 0


def _print_result(result: ReplayResult) -> None:
    print(result.report, end="")
    print("Tables")
    for name, path in result.tables.items():
        print(f"  {name:<18} {path}")
    print(f"Page\n  {result.page}")


def replay(
    input_dir: Path | str,
    output_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    direct: bool = True,
    full: bool = False,
) -> ReplayResult:
    """Replay a metadata log into tables.

    Args:
        input_dir: The directory `__cluster_metadata-0`, or the log directory that contains it.
        output_dir: Tables are written to its subfolders, replacing those of an earlier run.
        spark: Session to use; without one, a session is started and stopped again.
        direct: Whether tasks may write files by themselves, where the output allows that.
        full: Whether the whole log is read, also where only what is new would do.

    Raises:
        ReplayInputError: input, output or machine are not usable. Damage inside the log raises
            nothing; it is in the table of problems.
    """
    directory = find_metadata_dir(Path(input_dir))
    output = OutputDir(str(output_dir), t.TABLES, direct=direct)
    output.prepare(str(directory))
    try:
        layout = read_layout(directory)
        may_go_on = output.direct and not full
        former = load_former(Path(output.path), layout) if may_go_on else None
        if spark is not None:
            prepare(spark, layout.size_bytes)
            return run(spark, layout, output, former)
        session = start_session(layout.size_bytes, compile_well=not output.direct)
        try:
            return run(session, layout, output, former)
        finally:
            session.stop()
    finally:
        output.clean_up()


def answer(
    output_dir: Path | str, *moments: int | datetime, spark: SparkSession | None = None
) -> str:
    """Say what tables tell of one moment, or how two moments differ; write that beside them.

    Args:
        output_dir: Where the tables are.
        moments: One or two offsets or times.
        spark: Session to use; without one, a session is started and stopped again.

    Raises:
        ReplayInputError: there are no tables, or a moment lies outside the log.
    """
    session = start_session(SMALL_LOG_BYTES + 1) if spark is None else spark
    try:
        tables = read_tables(session, str(output_dir))
        found = [resolve(tables, moment) for moment in moments]
        held = [as_of(tables, moment) for moment in found]
        if len(held) == 1:
            write_beside(session, f"{output_dir}/{AS_OF}", held[0])
            return as_of_text(held[0], found[0])
        diff = difference(*held).persist()
        try:
            write_beside(session, str(output_dir), {DIFF: diff})
            return difference_text(diff, *found)
        finally:
            diff.unpersist()
    finally:
        if spark is None:
            session.stop()


if __name__ == "__main__":
    sys.exit(main())
