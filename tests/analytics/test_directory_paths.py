from __future__ import annotations

from pathlib import Path

import pytest

from analytics.ask.directory_paths import directory_paths
from analytics.errors import ReplayInputError
from analytics.page.figure import Answer
from analytics.page.report_figures import Figures
from analytics.page.report_page import answer_block
from jbodlab.pages.page import Section, html_page
from tests.analytics.page_reader import read_page
from tests.analytics.shared import NO_TIME, figure


def meta(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    file = folder / "meta.properties"
    file.write_text(text)
    return file


def test_a_directory_lies_where_its_own_file_is(tmp_path: Path) -> None:
    first = meta(tmp_path / "d1", "version=1\ndirectory.id=D1\n")
    meta(tmp_path / "d2", "directory.id=D2\n")
    meta(tmp_path / "old", "version=0\n")
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path}/d2, {tmp_path}/old,{tmp_path}/elsewhere,\n")

    found = directory_paths(config, [first])

    assert found == {"D1": f"{tmp_path}/d1", "D2": f"{tmp_path}/d2"}
    assert directory_paths(None, []) == {}


def test_a_named_file_that_tells_no_id_is_an_error(tmp_path: Path) -> None:
    file = meta(tmp_path / "d1", "version=0\n")

    with pytest.raises(ReplayInputError, match=r"meta\.properties has no directory\.id"):
        directory_paths(None, [file])
    with pytest.raises(ReplayInputError, match="cannot read"):
        directory_paths(None, [tmp_path / "missing"])


def test_the_page_shows_the_path_and_carries_the_id() -> None:
    answer = Answer(
        figure=figure("empty_directories"), rows=((1, "D1", 2.5), (1, "<D2>", None)), total=2
    )
    figures = Figures(span=NO_TIME, answers={}, paths={"D1": "/data/<d1>"})

    block = answer_block(answer, figures)
    page = read_page(html_page([Section(name="risk", blocks=[block])], title="Risk"))

    assert not page.faults
    ((_, first, _), (_, second, _)) = page.figures[0].rows
    assert (first.text, first.value) == ("/data/<d1> (D1)", "D1")
    assert (second.text, second.value) == ("<D2>", "<D2>")
