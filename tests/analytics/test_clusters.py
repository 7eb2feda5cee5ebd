"""Many clusters in one output, and a second run that leaves unchanged clusters alone."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from analytics.ask.broker_logs import LogLine, lines_about_directories
from analytics.engines import LOCAL
from analytics.errors import ReplayInputError
from analytics.job.clusters import ReplayOptions, ReplayResult
from analytics.job.command import answer, replay
from analytics.job.local_tables import LocalTables
from analytics.page.report_figures import Figures, ask_figures
from analytics.tables.catalog import TABLES
from analytics.tables.sql_files import sql_files
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.metadata.records.topic_records import TopicRecord
from tests.analytics.builders import LogBuilder, partition_record, register, uid
from tests.analytics.page_reader import read_page

NODES = "kVd9ZwzAQzS8nkp0ZvvVvg"
"""Id of the cluster of which there are two copies."""


def make_log(root: Path, number: int, *, segment_bytes: int = 1 << 20) -> LogBuilder:
    """Make the log of a cluster that has a broker and a topic of its own."""
    log = LogBuilder(root, segment_bytes=segment_bytes)
    log.append(register(number, [uid(number)]))
    log.append(
        TopicRecord(name=f"topic-{number}", topic_id=uid(100 + number)),  # type: ignore[arg-type]
        partition_record(uid(100 + number), replicas=(number,), leader=number),
    )
    return log


def make_nodes(root: Path, number: int) -> int:
    """Make two copies of a log, none of them whole: an archive and a folder; returns its end."""
    for node, size in enumerate((200, 300)):
        home = root / f"node{node}" / "kraft"
        log = make_log(home, number, segment_bytes=size)
        for _ in range(20):
            log.append(NoOpRecord())
        log.close()
        (home / "meta.properties").write_text(f"cluster.id={NODES}\n")
    segments = [sorted((root / f"node{node}/kraft").rglob("*.log")) for node in (0, 1)]
    segments[0][-1].unlink()
    segments[1][0].unlink()
    with tarfile.open(root / "node0.tgz", "w:gz") as packed:
        packed.add(root / "node0" / "kraft", arcname="kraft")
    shutil.rmtree(root / "node0")
    return log.log.end_offset


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def by_cluster(output: Path, table: str, column: str) -> dict[str, set[object]]:
    found: dict[str, set[object]] = {}
    for row in pq.read_table(output / table).to_pylist():
        found.setdefault(row["cluster"], set()).add(row[column])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    root: Path
    output: Path
    inputs: list[str]
    first: ReplayResult
    second: ReplayResult
    changed: set[tuple[str, int]]
    """Files that came or went with the second run."""
    end_of_nodes: int
    """End offset of the log of which there are two copies."""


def files(output: Path) -> set[tuple[str, int]]:
    paths = output.rglob("*.parquet")
    return {(str(path.relative_to(output)), path.stat().st_ino) for path in paths}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Clusters by a pattern, a name, and copies with an archive; then one of them has grown."""
    root = tmp_path_factory.mktemp("clusters")
    logs = [make_log(root / "logs" / name / "kraft", i) for i, name in ((1, "eu"), (2, "us"))]
    make_log(root / "named", 3).close()
    end_of_nodes = make_nodes(root / "nodes", 4)
    inputs = [f"{root}/logs/*/kraft", f"third={root}/named", f"{root}/nodes/node*"]
    output = root / "out"
    first = replay(inputs, output, LOCAL)
    before = files(output)
    logs[1].append(NoOpRecord())
    for log in logs:
        log.close()
    second = replay(inputs, output, LOCAL)
    return Runs(
        root=root,
        output=output,
        inputs=inputs,
        first=first,
        second=second,
        changed=before ^ files(output),
        end_of_nodes=end_of_nodes,
    )


def test_the_engine_is_closed_before_the_reports(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class NotingTables(LocalTables):
        def write(self, *given: Any) -> None:
            steps.append("write")
            super().write(*given)

        def close(self) -> None:
            steps.append("close")

    def ask(*given: Any) -> dict[str, Figures]:
        steps.append("report")
        return ask_figures(*given)

    monkeypatch.setattr("analytics.job.clusters.ask_figures", ask)

    replay(runs.inputs[0], tmp_path, NotingTables())

    assert steps == ["write", "close", "report"]


def test_the_cluster_is_the_first_column_of_every_table_and_its_folder(runs: Runs) -> None:
    names = ["eu", NODES, "third", "us"]
    assert list(runs.first.clusters) == names
    assert by_cluster(runs.output, "topics", "topic") == {
        "eu": {"topic-1"},
        "us": {"topic-2"},
        "third": {"topic-3"},
        NODES: {"topic-4"},
    }
    for table in TABLES:
        folder = runs.output / table.name
        assert names_in(folder) == [f"cluster={name}" for name in names]
        assert pq.read_table(folder).column_names[-1] == "cluster"


def test_a_second_run_reads_only_the_cluster_that_has_grown(runs: Runs) -> None:
    assert {name: one.is_new for name, one in runs.second.clusters.items()} == {
        "eu": False,
        NODES: False,
        "third": False,
        "us": True,
    }
    assert runs.changed
    assert all("/cluster=us/" in name for name, _ in runs.changed)
    for name, one in runs.first.clusters.items():
        assert (one.report == runs.second.clusters[name].report) == (name != "us")


def test_a_question_names_its_cluster_where_there_are_several(
    runs: Runs,
) -> None:
    with pytest.raises(ReplayInputError, match=r"holds 4 clusters .*: choose one with --named"):
        answer(runs.output, 0)
    with pytest.raises(ReplayInputError, match="holds no cluster nowhere"):
        answer(runs.output, 0, cluster="nowhere")
    answer(runs.output, 2, cluster="us")
    assert by_cluster(runs.output / "as_of", "topics", "topic") == {"us": {"topic-2"}}


def test_each_cluster_has_a_page_of_its_own(runs: Runs) -> None:
    pages = names_in(runs.output / "reports")

    assert pages == [f"{name}.html" for name in runs.second.clusters]
    assert [Path(page).name for page in runs.second.pages] == ["report.html", *pages]
    assert "Cluster      us\n" in runs.second.report
    for name, one in runs.second.clusters.items():
        page = Path(one.page).read_text("utf-8")
        assert '<a href="../report.html">All clusters</a>' in page
        assert f"<h1>Metadata log of {name}</h1>" in page


def test_the_start_page_ranks_all_clusters_also_those_that_were_not_read_again(runs: Runs) -> None:
    page = (runs.output / "report.html").read_text("utf-8")

    assert not read_page(page).faults
    assert sorted(runs.second.ranking) == list(runs.second.clusters)
    places = [page.index(f'<a href="reports/{name}.html">') for name in runs.second.ranking]
    assert places == sorted(places)
    first, *rest = runs.second.report.splitlines()
    assert first.startswith(f"Clusters     {runs.second.ranking[0]}: 0 incidents open, ")
    assert rest[0].startswith(f"             {runs.second.ranking[1]}: ")


def without_others(runs: Runs, output: Path, source: str) -> ReplayResult:
    """Replay some of the inputs into a copy of the output of all."""
    shutil.copytree(runs.output, output, copy_function=shutil.copy2)
    return replay(source, output, LOCAL)


def test_one_cluster_that_is_left_gets_its_own_page_in_place_of_the_start_page(
    runs: Runs, tmp_path: Path
) -> None:
    output = tmp_path / "out"

    result = without_others(runs, output, f"third={runs.root}/named")

    assert [Path(page).name for page in result.pages] == ["report.html"]
    assert not (output / "reports").exists() or not list((output / "reports").iterdir())
    assert "<h1>Metadata log of third</h1>" in (output / "report.html").read_text("utf-8")


def test_what_is_no_input_any_more_is_in_no_table(runs: Runs, tmp_path: Path) -> None:
    output = tmp_path / "out"

    result = without_others(runs, output, f"{runs.root}/logs/*/kraft")

    assert list(result.clusters) == ["eu", "us"]
    for table in TABLES:
        assert names_in(output / table.name) == ["cluster=eu", "cluster=us"]
    assert names_in(output / "reports") == ["eu.html", "us.html"]


def test_copies_of_several_nodes_are_one_log(runs: Runs) -> None:
    def rows(table: str) -> list[dict[str, object]]:
        return pq.read_table(runs.output / table / f"cluster={NODES}").to_pylist()

    assert rows("problems") == []
    assert [row["offset"] for row in rows("records")] == list(range(runs.end_of_nodes))
    (log_row,) = rows("logs")
    assert "node0.tgz!kraft/__cluster_metadata-0" in str(log_row["source"])


def test_an_unchanged_cluster_is_read_again_if_something_else_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(tmp_path / "log", 1).close()
    said = "[2026-01-31 12:00:00,001] ERROR [RM broker=1] Error while writing in dir /d (k.s.RM)"
    (line,) = lines_about_directories("server.log", [said])

    def is_new(*lines: LogLine, full: bool = False) -> bool:
        options = ReplayOptions(broker_logs=lines, full=full)
        (one,) = replay(tmp_path / "log", tmp_path / "out", LOCAL, options).clusters.values()
        return one.is_new

    assert [is_new(), is_new(), is_new(line), is_new(line)] == [True, False, True, False]
    assert pq.read_table(tmp_path / "out" / "broker_log_lines").num_rows == 1
    assert [is_new(), is_new(full=True)] == [True, True]
    assert pq.read_table(tmp_path / "out" / "broker_log_lines").num_rows == 0
    # The text of a table is another one than that of the run before.
    edited = {name: replace(one, sql=f"{one.sql}-- edited") for name, one in sql_files().items()}
    monkeypatch.setattr("analytics.job.clusters.sql_files", lambda: edited)
    assert [is_new(), is_new()] == [True, False]
