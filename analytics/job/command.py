"""`jbodlab replay`: metadata logs in, Parquet tables and a short report out.

The order of steps: look at the files, choose an engine, replay each log (`job.run`), print the
reports.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from analytics.ask.as_of import AS_OF, DIFF, as_of, cluster_to_ask, difference, read_tables, resolve
from analytics.ask.assumptions import assumed_min_isr
from analytics.ask.broker_logs import read_broker_logs, zone_named
from analytics.ask.directory_paths import directory_paths
from analytics.ask.offline_log import parse_moment
from analytics.ask.texts import as_of_text, difference_text
from analytics.engines import LOCAL, SPARK
from analytics.job.clusters import ReplayOptions, ReplayResult, replay_clusters
from analytics.job.engine import Engine
from analytics.job.local_tables import LocalTables
from analytics.job.output import OutputDir, require_in_place, write_beside
from analytics.machine import complete_input
from analytics.page.conditions import known_figures, parse_objective
from analytics.page.report_json import as_json
from analytics.read.named_logs import look
from analytics.source.requirements import FOR_SPARK, check_requirements
from analytics.store.arrow_alone import use_arrow_alone
from analytics.tables import catalog as t
from jbodlab.cli import lab_state
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.pages.conditions import Condition, parse_condition

if TYPE_CHECKING:
    from jbodlab.cli.results import Replayed

CONDITION_HOLDS = 2
"""Exit code when the condition of `--fail-on` holds."""


def run(options: Namespace, output: Output) -> int:
    """Replay, or answer from tables; returns the exit code.

    Raises:
        ReplayInputError: input, output or machine are not usable.
    """
    use_arrow_alone()
    moments = options.diff or ([options.as_of] if options.as_of else [])
    if moments and (output.is_json or options.fail_on):
        raise UsageError("--output json and --fail-on are for the report of a whole log")
    if options.input or not moments:
        complete_input(options, output)
    if options.results is None:
        options.results = _new_folder(options.cluster)
    return _carry_out(options, moments, output)


def _new_folder(cluster: str | None) -> str:
    """Return where the tables of a cluster of this machine are kept.

    Raises:
        UsageError: they are those of another one.
    """
    if cluster is None:
        raise UsageError("missing --results")
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    kept = lab_state.state_dir(os.environ, os.geteuid()) / "replays"
    return str(kept / f"{cluster}-{stamp}")


def _carry_out(options: Namespace, moments: Sequence[str], output: Output) -> int:
    condition = None
    if options.fail_on is not None:
        condition = parse_condition(options.fail_on, known_figures())
    objective = None if options.objective is None else parse_objective(options.objective)
    zone = None if options.log_zone is None else zone_named(options.log_zone)
    wanted = [parse_moment(text) for text in moments]
    exit_code = 0
    if options.input:
        engine = _engine(options.engine, output)
        if options.catalog is not None and engine == LOCAL:
            raise UsageError("--catalog is for --engine spark, whose session has catalogs")
        result = replay(
            options.input,
            options.results,
            engine,
            ReplayOptions(
                assumed=assumed_min_isr(options),
                broker_logs=read_broker_logs(options.broker_logs, zone),
                objective=objective,
                paths=directory_paths(options.config, options.meta),
                full=options.full,
                catalog=options.catalog,
                with_figures=output.is_json or condition is not None,
            ),
        )
        output.result(_as_json(result), _text(result))
        if condition is not None and _holds(condition, result, output):
            exit_code = CONDITION_HOLDS
    if moments:
        output.line(answer(options.results, *wanted, cluster=options.named).rstrip("\n"))
    return exit_code


def _engine(wanted: str, output: Output) -> str:
    """Return the engine that is used: without PySpark the local one.

    Raises:
        ReplayInputError: PySpark is too old, or lacks something.
    """
    if wanted == SPARK and find_spec("pyspark") is None:
        output.note("jbodlab: PySpark is not installed: the replay runs with --engine local")
        return LOCAL
    if wanted == SPARK:
        check_requirements("jbodlab replay --engine spark", FOR_SPARK)
    return wanted


def _as_json(result: ReplayResult) -> Replayed:
    reports = {
        name: as_json(one.figures, one.page)
        for name, one in result.clusters.items()
        if one.figures is not None
    }
    return {
        "ranking": result.ranking,
        "start_page": result.start,
        "clusters": reports,
        "tables": result.tables,
        "ran_on": result.ran_on,
    }


def _holds(condition: Condition, result: ReplayResult, output: Output) -> bool:
    """Say of which clusters a condition holds, and return whether there are any."""
    found = False
    for name, one in result.clusters.items():
        if one.figures is not None and condition.holds(one.figures.named):
            figures = condition.found(one.figures.named)
            output.note(f"jbodlab: cluster {name}: {condition.text}: {figures}")
            found = True
    return found


def _text(result: ReplayResult) -> str:
    return "\n".join(
        [
            result.report.rstrip("\n"),
            "Tables",
            *(f"  {name:<18} {path}" for name, path in result.tables.items()),
            "Page" if len(result.pages) == 1 else "Pages",
            *(f"  {page}" for page in result.pages),
            f"Engine\n  {result.engine}",
        ]
    )


def replay(
    inputs: Path | str | Sequence[Path | str],
    output_dir: Path | str,
    engine: Engine | str = SPARK,
    options: ReplayOptions | None = None,
) -> ReplayResult:
    """Replay metadata logs into tables.

    Args:
        inputs: Values of `--input`, one or several.
        output_dir: Tables are written to its subfolders, replacing those of an earlier run.
        engine: An engine, or the name of one, which is started and stopped again.
        options: Of the user.

    Raises:
        ReplayInputError: input, output or machine are not usable. Damage inside a log raises
            nothing; it is in the table of problems.
    """
    given = [inputs] if isinstance(inputs, Path | str) else inputs
    found = look([str(one) for one in given])
    output = OutputDir(str(output_dir), t.TABLES)
    output.prepare(copy.folder for _, copy in found.found)
    options = options or ReplayOptions()
    try:
        with _started(engine, found.size_bytes, options.catalog) as started:
            result = replay_clusters(started, found, output, options)
            if options.catalog is not None:
                from pyspark.sql import SparkSession

                from analytics.job.session_catalog import save_tables

                session = SparkSession.builder.getOrCreate()
                save_tables(session, t.TABLES, result.tables, options.catalog)
            return result
    finally:
        output.clean_up()


@contextmanager
def _started(engine: Engine | str, size_bytes: int, catalog: str | None) -> Iterator[Engine]:
    if not isinstance(engine, str):
        yield engine
    elif engine == LOCAL:
        yield LocalTables()
    else:
        from analytics.job.session import start_session
        from analytics.job.spark_tables import SparkTables

        # To stop a session takes PySpark a second: the reports are written meanwhile.
        with ThreadPoolExecutor(1) as pool, ExitStack() as stopping:
            session = start_session(size_bytes)
            stopping.callback(pool.submit, session.stop)
            yield SparkTables(session, stopping.close if catalog is None else int)


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
