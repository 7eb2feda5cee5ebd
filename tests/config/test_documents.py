"""What the documents name is there: files, commands of `jbodlab`, and their options."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from fault_injection.kinds import KINDS
from jbodlab.cli.program import commands_of, nouns, parser_of
from lab import __main__ as program

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
READERS = ("for-developers", "testing", "for-operators", "for-analysts", "for-students")
_FILE = re.compile(
    r"`((?:docs|config|docker|examples|tests|lab|jbodlab|broker|controller)/[\w./-]+)`"
)
_COMMAND = re.compile(r"^(?:\.venv/bin/)?jbodlab (.*?)(?: +#.*)?$", re.MULTILINE)


def commands() -> dict[str, argparse.ArgumentParser]:
    (found,) = (
        action
        for action in program._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return found.choices


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_are_there(document: Path) -> None:
    named = _FILE.findall(document.read_text())

    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_shown_exist_with_their_options(document: Path) -> None:
    known = commands()
    shown = "".join(document.read_text().split("```")[1::2])
    for text in _COMMAND.findall(shown):
        for line in text.split("; jbodlab "):
            name, *words = line.split(" -- ")[0].split()
            if name in known:
                options = {
                    word for action in known[name]._actions for word in action.option_strings
                }
            else:
                verbs = commands_of(nouns()[name])
                assert isinstance(verbs, dict)
                options = set(parser_of(f"{name} {words[0]}", verbs[words[0]]).option_names())
            given = {word.strip("[]") for word in words if word.lstrip("[").startswith("-")}
            assert given <= options, line
            if name == "inject" and words[0] != "KIND":
                assert words[0] in KINDS, line


def test_each_kind_of_reader_has_a_page_that_the_readme_names() -> None:
    readme = (ROOT / "README.md").read_text()

    for name in READERS:
        assert f"`docs/{name}.md`" in readme
        assert (ROOT / "docs" / f"{name}.md").is_file()
