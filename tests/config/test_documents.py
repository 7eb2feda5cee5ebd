"""What the documents name is there: files, commands of `jbodlab`, and their options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fault_injection.kinds import KINDS
from jbodlab.cli.command import Command
from jbodlab.cli.program import commands_of, nouns, parser_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
READERS = ("for-developers", "testing", "for-operators", "for-analysts", "for-students")
_FILE = re.compile(
    r"`((?:docs|config|docker|examples|tests|lab|jbodlab|broker|controller)/[\w./-]+)`"
)
_COMMAND = re.compile(r"^(?:\.venv/bin/)?jbodlab (.*?)(?: +#.*)?$", re.MULTILINE)


def command(words: list[str]) -> tuple[str, Command, list[str]]:
    """The command that words begin with: its name, itself, and the words behind its name."""
    noun, *rest = words
    assert noun in nouns(), words
    found = commands_of(nouns()[noun])
    if isinstance(found, Command):
        return noun, found, rest
    assert rest[0] in found, words
    return f"{noun} {rest[0]}", found[rest[0]], rest[1:]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_are_there(document: Path) -> None:
    named = _FILE.findall(document.read_text())

    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_shown_exist_with_their_options(document: Path) -> None:
    shown = "".join(document.read_text().split("```")[1::2])
    for text in _COMMAND.findall(shown):
        for line in text.split("; jbodlab "):
            name, found, words = command(line.split(" -- ")[0].split())
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert options <= set(parser_of(name, found).option_names()), line
            if name == "inject" and words[0] != "KIND":
                assert words[0] in KINDS, line


def test_each_kind_of_reader_has_a_page_that_the_readme_names() -> None:
    readme = (ROOT / "README.md").read_text()

    for name in READERS:
        assert f"(docs/{name}.md)" in readme
        assert (ROOT / "docs" / f"{name}.md").is_file()
