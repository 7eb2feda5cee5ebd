"""What the documents name is there: files, commands of `jbodlab`, and their options."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from fault_injection.kinds import KINDS
from jbodlab.cli.command import Command
from jbodlab.cli.program import commands_of, nouns, parser_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/orders/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
READERS = ("for-developers", "testing", "for-operators", "for-analysts", "for-students")
_FILE = re.compile(
    r"`((?:docs|config|docker|examples|tests|lab|jbodlab|broker|controller)/[\w./-]+)`"
)
_COMMAND = re.compile(r"^(?:\.venv/bin/)?jbodlab (.*?)(?: +#.*)?$", re.MULTILINE)
_SPAN = re.compile(r"`jbodlab ([^`]+)`")
_PIP = re.compile(r"pip install [^`#]*jbodlab[^`#\n]*")
_BUILT = re.compile(
    r"""pip install (dist/jbodlab-\*\$\(uname -m\)\.whl"""
    r"""|"\$\(ls (\.\./\.\./)?dist/jbodlab-\*\$\(uname -m\)\.whl\)\[[a-z0-9,]+\]")"""
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()


NEEDED = {"replay": "analytics", "why": "replay", "what-if": "replay", "--security": "pkcs12"}
"""Words of commands, and the extra that brings what they import."""


def shown(document: Path) -> list[str]:
    """The commands that a page shows in blocks of code, without `jbodlab`."""
    blocks = "".join(document.read_text().split("```")[1::2]).replace("\\\n", " ")
    return [line for text in _COMMAND.findall(blocks) for line in text.split("; jbodlab ")]


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

    places = (ROOT, document.parent)
    assert [name for name in named if not any((each / name).exists() for each in places)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_shown_exist_with_their_options(document: Path) -> None:
    for line in shown(document):
        name, found, words = command(line.split(" -- ")[0].split())
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= set(parser_of(name, found).option_names()), line
        if name == "inject" and words[0] != "KIND":
            assert words[0] in KINDS, line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_options_of_commands_in_sentences_exist(document: Path) -> None:
    sentences = "".join(document.read_text().split("```")[::2])
    for text in _SPAN.findall(sentences):
        words = [word.strip("[]") for word in text.split(" -- ")[0].split()]
        if words[0] in nouns() and len(words) > 1:
            verb = commands_of(nouns()[words[0]])
            if isinstance(verb, Command) or words[1] in verb:
                name, found, rest = command(words)
                options = {word.partition("=")[0] for word in rest if re.match("--[a-z]", word)}
                assert options <= set(parser_of(name, found).option_names()), text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_targets_of_make_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    named = re.findall(r"`make ([a-z-]+)", text)
    named += re.findall(r"^make ([a-z-]+)", "".join(text.split("```")[1::2]), re.MULTILINE)

    assert [name for name in named if f"\n{name}:" not in MAKEFILE] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_product_is_installed_from_what_was_built(document: Path) -> None:
    wrong = [line for line in _PIP.findall(document.read_text()) if not _BUILT.match(line)]

    assert wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_extras_that_are_named_exist(document: Path) -> None:
    found = re.findall(r"the extra `(\w+)`|\.whl\)\[([a-z0-9,]+)\]", document.read_text())
    named = {name for pair in found for text in pair for name in text.split(",") if name}

    assert named <= set(PROJECT["optional-dependencies"])


def test_the_page_about_installing_tells_of_each_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text()

    told = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert told == set(PROJECT["optional-dependencies"])


def test_the_environment_of_the_readme_has_what_its_commands_need() -> None:
    (made,) = re.findall(r"^DEMO_EXTRAS := (.*)$", MAKEFILE, re.MULTILINE)
    extras = PROJECT["optional-dependencies"]
    there = {requirement for extra in made.split(",") for requirement in extras[extra]}

    for line in shown(ROOT / "README.md"):
        words = line.split()
        for word, extra in NEEDED.items():
            if word in words:
                assert set(extras[extra]) <= there, line


def test_each_kind_of_reader_has_a_page_that_the_readme_names() -> None:
    readme = (ROOT / "README.md").read_text()

    for name in READERS:
        assert f"(docs/{name}.md)" in readme
        assert (ROOT / "docs" / f"{name}.md").is_file()
