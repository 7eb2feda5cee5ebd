"""Names in the documents are there: targets of `make`, and extras; `check_code` has the rest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.config.documents import MAKEFILE, PROJECT, ROOT, shown

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/orders/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
READERS = (
    "for-developers",
    "testing",
    "for-operators",
    "for-analysts",
    "for-spark",
    "for-students",
)
_PIP = re.compile(r"pip install [^`#]*jbodlab[^`#\n]*")
_BUILT = re.compile(
    r"""pip install (dist/jbodlab-\*\$\(uname -m\)\.whl"""
    r"""|"\$\(ls (\.\./\.\./)?dist/jbodlab-\*\$\(uname -m\)\.whl\)\[[a-z0-9,]+\]")"""
)


NEEDED = {"replay": "analytics", "why": "replay", "what-if": "replay", "--security": "pkcs12"}
"""Words of commands, and the extra that brings what they import."""


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
