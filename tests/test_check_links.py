"""The links of Markdown pages are checked: files and headings."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_links


def page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "[other](other.md)",
        "[heading](other.md#the-second-one-1)",
        "[`code`](other.md) and [own](#here)\n\n# Here",
        "[elsewhere](https://example.org/none) [mail](mailto:a@example.org)",
        "[folder](.)",
        "`[no link](none.md)`",
        "```\n[no link](none.md)\n```",
        "[referred]\n\n[referred]: other.md",
        '[by name](#named)\n<a id="named"></a>',
    ],
)
def test_a_link_that_leads_somewhere_is_no_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.md").write_text("# The *second* one!\n\n## The second one\n")

    assert list(check_links.problems(page(tmp_path, text))) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\n[gone](gone.md)", "2: gone.md: no such file"),
        ("[typo](other.md#hedding)", "1: other.md#hedding: no heading has the anchor 'hedding'"),
        ("[own](#here)", "1: #here: no heading has the anchor 'here'"),
        ("[referred]: gone.md", "1: gone.md: no such file"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "other.md").write_text("# Heading\n")
    path = page(tmp_path, text)

    assert list(check_links.problems(path)) == [f"{path}:{reason}"]


def test_all_pages_of_the_clone_have_links_that_lead_somewhere() -> None:
    assert check_links.main([]) == 0
