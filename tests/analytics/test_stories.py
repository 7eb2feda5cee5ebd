"""Tables as the cases of `stories/` have them: all logs by one plan, given rows by each engine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from analytics.page.report_figures import ask_figures
from analytics.page.report_text import text_of
from analytics.read.layout import read_layout
from analytics.tables.catalog import TABLES
from analytics.tables.sql_files import sql_files
from jbodlab.cli.program import main
from tests.analytics.page_tables import ONE
from tests.analytics.shared import frames
from tests.analytics.small_logs import Answered, Rows, answered, tables_of_logs, write_log
from tests.analytics.stories import NAMES, Story, named, stories, told

OF_LOGS = {story.name: story for story in stories(is_log=True)}


def cases(found: Mapping[str, Story]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "story", [pytest.param(story, id=name) for name, story in found.items()]
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stories")
    for name, story in OF_LOGS.items():
        (root / name).mkdir()
        write_log(root / name, story.batches, story.step_s, story.snapshots)
    return root


@pytest.fixture(scope="module")
def tables(logs: Path) -> Mapping[str, Rows]:
    layouts = {name: read_layout(logs / name) for name in OF_LOGS}
    return tables_of_logs([table.name for table in TABLES], layouts)


@cases({name: story for name, story in OF_LOGS.items() if story.expected})
def test_a_log_gives_the_rows_of_its_case(story: Story, tables: Mapping[str, Rows]) -> None:
    for table, columns, rows in story.expected:
        assert told(tables[story.name][table], columns) == rows, table


@cases({story.name: story for story in stories(is_log=False)})
def test_given_rows_give_the_rows_of_their_case(story: Story, made_of: Answered) -> None:
    for table, columns, rows in story.expected:
        # Only a table has rows that Spark writes.
        ask = answered if sql_files()[table].table is None else made_of
        assert told(ask(table, **story.given), columns) == rows, table


def report_of(rows: Rows, folder: Path) -> list[str]:
    """Return the report of tables: of two copies, with a problem of their files."""
    found = rows | {"problems": [{"kind": "gap", "message": "offsets 4 to 5 are missing"}]}
    (log,) = rows["logs"]
    found["logs"] = [log | {"source": "/logs/it's, /logs/b"}]
    return named(text_of(ask_figures(frames(folder, **found), [ONE])[ONE])).splitlines()


@cases({name: story for name, story in OF_LOGS.items() if story.asked})
def test_a_log_gives_the_answers_of_its_case(
    story: Story,
    logs: Path,
    tables: Mapping[str, Rows],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = {name: text for text, name in NAMES.items()}
    for question, answer in story.asked:
        if not question:
            assert report_of(tables[story.name], tmp_path) == answer
            continue
        words = [texts.get(word, word) for word in shlex.split(question)]
        code = main([*words, "--input", str(logs / story.name)])

        said = capsys.readouterr()
        ended = [f"exit code {code}"] if code else []
        assert named(said.out + said.err).splitlines() + ended == answer, question
