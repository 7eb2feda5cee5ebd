"""`jbod-replay`: metadata logs in, Parquet tables and a short report out.

The order of steps: look at the files, read and decode them once, fold states per key, write the
tables, ask the tables for the report.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from analytics.ask import what_if
from analytics.ask.as_of import AS_OF, DIFF, as_of, cluster_to_ask, difference, read_tables, resolve
from analytics.ask.as_of_text import as_of_text, difference_text
from analytics.ask.assumptions import add_options, assumed_min_isr
from analytics.ask.broker_logs import LogLine, read_broker_logs, zone_named
from analytics.ask.directory_paths import add_option, directory_paths
from analytics.ask.offline_log import parse_moment
from analytics.bytes.named_logs import look
from analytics.errors import ReplayInputError
from analytics.fold.min_insync import AssumedMinIsr
from analytics.job.clusters import ReplayOptions, ReplayResult, replay_clusters
from analytics.job.output import OutputDir, require_in_place, write_beside
from analytics.job.session import end_started, start_session
from analytics.page.conditions import Condition, parse_condition, parse_objective
from analytics.page.report_figures import Asked, names_of_figures
from analytics.page.report_json import as_json
from analytics.tables import catalog as t
from jbodlab.command_line import INTERRUPTED, Parser

WHAT_IF = "what-if"
"""First argument that asks a question in place of a replay."""

CONDITION_HOLDS = 2
"""Exit code when the condition of `--fail-on` holds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line tool and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == [WHAT_IF]:
        return what_if.main(given[1:])
    parser = Parser(
        prog="jbod-replay",
        usage="%(prog)s [--input [NAME=]URI ...] --output DIR [options]",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=34),
        description="Replay KRaft metadata logs into Parquet tables, and print a short report. "
        "MOMENT is an offset, or a time as 2026-01-31T12:00:00Z.",
        epilog="`jbod-replay what-if --help`: consequences of a failure.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--input",
        action="extend",
        nargs="+",
        metavar="URI",
        help="folder or archive with __cluster_metadata-0, or a pattern; NAME=URI names it",
    )
    parser.add_argument(
        "--output", required=True, metavar="DIR", help="where to write tables and report.html"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="read the whole log, not only new records",
    )
    add_options(parser)
    add_option(parser)
    parser.add_argument(
        "--broker-logs",
        nargs="+",
        type=Path,
        default=(),
        metavar="FILE",
        help="brokers' logs: details of failures",
    )
    parser.add_argument(
        "--log-zone", metavar="ZONE", help="their time zone (default: this machine's)"
    )
    parser.add_argument("--cluster", metavar="NAME", help="cluster for --as-of and --diff")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--fail-on", metavar="CONDITION", help="exit with 2 if it holds, as 'outages > 0'"
    )
    parser.add_argument("--objective", metavar="PERCENT", help="wanted availability, as 99.95")
    question = parser.add_mutually_exclusive_group()
    question.add_argument(
        "--as-of",
        metavar="MOMENT",
        help="the cluster at that moment; also DIR/as_of/",
    )
    question.add_argument(
        "--diff",
        nargs=2,
        metavar="MOMENT",
        help="changes between two moments; also DIR/diff/",
    )
    options = parser.parse_args(given)
    moments = options.diff or ([options.as_of] if options.as_of else [])
    if options.input is None and not moments:
        parser.error("the following arguments are required: --input")
    if moments and (options.json or options.fail_on):
        parser.error("--json and --fail-on are for the report of a whole log")
    exit_code = 0
    try:
        condition = None
        if options.fail_on is not None:
            condition = parse_condition(options.fail_on, names_of_figures())
        objective = None if options.objective is None else parse_objective(options.objective)
        zone = None if options.log_zone is None else zone_named(options.log_zone)
        wanted = [parse_moment(text) for text in moments]
        if options.input is not None:
            assumed = assumed_min_isr(options)
            result = replay(
                options.input,
                options.output,
                full=options.full,
                assumed=assumed,
                broker_logs=read_broker_logs(options.broker_logs, zone),
                asked=Asked(
                    objective=objective, paths=directory_paths(options.config, options.meta)
                ),
                with_figures=options.json or condition is not None,
            )
            if options.json:
                print(_json(result))
            else:
                _print_result(result)
            if condition is not None and _holds(condition, result):
                exit_code = CONDITION_HOLDS
        if moments:
            print(answer(options.output, *wanted, cluster=options.cluster), end="")
    except ReplayInputError as error:
        print(f"jbod-replay: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        # A virtual machine that was still starting has heard nothing, and nobody else ends it.
        end_started()
        return INTERRUPTED
    return exit_code


def _json(result: ReplayResult) -> str:
    reports = {
        name: {**as_json(one.figures), "page": one.page}
        for name, one in result.clusters.items()
        if one.figures is not None
    }
    found = {
        "ranking": result.ranking,
        "start_page": result.start,
        "clusters": reports,
        "tables": result.tables,
        "ran_on": result.ran_on,
    }
    return json.dumps(found, indent=1, allow_nan=False)


def _holds(condition: Condition, result: ReplayResult) -> bool:
    """Say of which clusters a condition holds, and return whether there are any."""
    found = False
    for name, one in result.clusters.items():
        if one.figures is not None and condition.holds(one.figures.named):
            figures = condition.found(one.figures.named)
            print(f"jbod-replay: cluster {name}: {condition.text}: {figures}", file=sys.stderr)
            found = True
    return found


def _print_result(result: ReplayResult) -> None:
    print(result.report, end="")
    print("Tables")
    for name, path in result.tables.items():
        print(f"  {name:<18} {path}")
    print("Page" if len(result.pages) == 1 else "Pages")
    for page in result.pages:
        print(f"  {page}")
    print(f"Spark\n  {result.ran_on}")


def replay(
    inputs: Path | str | Sequence[Path | str],
    output_dir: Path | str,
    spark: SparkSession | None = None,
    *,
    assumed: AssumedMinIsr | None = None,
    broker_logs: Sequence[LogLine] = (),
    full: bool = False,
    asked: Asked | None = None,
    with_figures: bool = False,
) -> ReplayResult:
    """Replay metadata logs into tables.

    Args:
        inputs: What `--input` takes, one or several.
        output_dir: Tables are written to its subfolders, replacing those of an earlier run.
        spark: Session to use; without one, a session is started and stopped again.
        assumed: `min.insync.replicas` where a log does not say.
        broker_logs: What brokers wrote of their directories.
        full: Whether all logs are read as a whole, also where only what is new would do.
        asked: What the reports are asked for.
        with_figures: Whether the figures are needed also of clusters that have not changed.

    Raises:
        ReplayInputError: input, output or machine are not usable. Damage inside a log raises
            nothing; it is in the table of problems.
    """
    given = [inputs] if isinstance(inputs, Path | str) else inputs
    found = look([str(one) for one in given])
    output = OutputDir(str(output_dir), t.TABLES)
    output.prepare(copy.folder for _, copy in found.found)
    options = ReplayOptions(
        assumed=assumed,
        broker_logs=broker_logs,
        full=full,
        asked=asked or Asked(),
        with_figures=with_figures,
    )
    try:
        if spark is not None:
            return replay_clusters(spark, found, output, options)
        session = start_session(found.size_bytes, compile_well=False)
        try:
            return replay_clusters(session, found, output, options)
        finally:
            session.stop()
    finally:
        output.clean_up()


def answer(output_dir: Path | str, *moments: int | datetime, cluster: str | None = None) -> str:
    """Say what tables tell of one moment, or how two moments differ; write that beside them.

    Args:
        output_dir: Where the tables are.
        moments: One or two offsets or times.
        cluster: The one to ask of, where there are several.

    Raises:
        ReplayInputError: there are no tables, or those of several clusters or of two runs, or a
            moment lies outside the log.
    """
    require_in_place(str(output_dir))
    label = cluster_to_ask(str(output_dir), cluster)
    tables = read_tables(str(output_dir), label)
    found = [resolve(tables, moment) for moment in moments]
    held = [as_of(tables, moment) for moment in found]
    if len(held) == 1:
        write_beside(f"{output_dir}/{AS_OF}", label, held[0])
        return as_of_text(held[0], found[0])
    diff = difference(*held)
    write_beside(str(output_dir), label, {DIFF: diff})
    return difference_text(diff, *found)
