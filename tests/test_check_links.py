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


@pytest.mark.parametrize(
    "code",
    [
        "`lab/cluster/spec.py`, `cluster/spec.py`, `spec.py`, `cluster/spec`",
        "`lab/cluster/`, `tests/lab/*.py`, `analytics/tables/NAME.sql`",
        "`report.html`, `500/s`, `dist/jbod_replay.py`, `orders-0`, `/etc/x.py`, `ssl.ca`",
        "`jbodlab up --brokers 5`, `jbodlab dirs move ...`, `jbodlab why ... --output json`",
        "`jbodlab run --fail broker-1/1 -- ./app --nothing`, `jbodlab start|stop all`",
        "`--output json`, `--execute`",
        "```\njbodlab down --yes   # --nothing\n./app --nothing\n```",
    ],
)
def test_code_that_names_what_there_is_is_no_problem(tmp_path: Path, code: str) -> None:
    assert list(check_links.problems(page(tmp_path, code))) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("`lab/nowhere.py`", "`lab/nowhere.py`: no such file"),
        ("`nowhere.py`", "`nowhere.py`: no such file"),
        ("`cluster/sp.py`", "`cluster/sp.py`: no such file"),
        ("`jbodlab upp`", "`jbodlab upp`: there is no command `upp`"),
        ("`jbodlab dirs mend`", "`jbodlab dirs mend`: `dirs` has no verb `mend`"),
        ("`jbodlab up --disk 3`", "`jbodlab up --disk 3`: `up` has no option --disk"),
        ("`jbodlab list; jbodlab upp`", "`jbodlab list; jbodlab upp`: there is no command `upp`"),
        ("`jbodlab inject eioo`", "`jbodlab inject eioo`: there is no fault eioo"),
        ("`--nothing`", "`--nothing`: no command has this option"),
        ("```\n$ jbodlab up --disk 3\n```", "`$ jbodlab up --disk 3`: `up` has no option --disk"),
    ],
)
def test_code_that_names_what_is_not_there_is_named(tmp_path: Path, code: str, reason: str) -> None:
    path = page(tmp_path, code)
    number = 2 if code.startswith("```") else 1
    assert list(check_links.problems(path)) == [f"{path}:{number}: {reason}"]


WORDS = " ".join(["word"] * 40)


@pytest.mark.parametrize(
    "text",
    [
        f"{WORDS}.\n{WORDS}.",
        f"| {WORDS} | {WORDS} |",
        f"* {WORDS}\n* {WORDS}",
        f"{WORDS[5:]} `{WORDS} {WORDS}`",
        f"text\n\n    {WORDS} {WORDS}\n\ntext",
        f"# Heading\n{WORDS}",
    ],
)
def test_sentences_and_cells_may_have_forty_words(tmp_path: Path, text: str) -> None:
    assert list(check_links.problems(page(tmp_path, text))) == []


@pytest.mark.parametrize(
    ("text", "number", "kind"),
    [
        (f"One. {WORDS}\nmore.", 1, "sentence"),
        (f"text\n\n{WORDS}; more", 3, "sentence"),
        (f"* one\n* {WORDS} more", 2, "sentence"),
        (f"| one | {WORDS} more |", 1, "cell"),
    ],
)
def test_a_longer_one_is_named(tmp_path: Path, text: str, number: int, kind: str) -> None:
    (line,) = check_links.problems(page(tmp_path, text))

    assert f":{number}: " in line
    assert line.endswith(f"a {kind} of 41 words, at most 40")


def test_all_pages_of_the_clone_have_links_that_lead_somewhere() -> None:
    assert check_links.main([]) == 0


@pytest.mark.parametrize(
    "text",
    ["It ends. Who waits is answered.", "* What is left goes.", "Whoever asks\nis told."],
)
def test_a_sentence_without_a_noun_in_front_is_found(tmp_path: Path, text: str) -> None:
    (found,) = check_links.problems(page(tmp_path, text))

    assert "a sentence that begins with W" in found


@pytest.mark.parametrize(
    "text",
    ["## What it needs", "What is a disk?", "The reader who waits is answered.", "| What | a |"],
)
def test_a_heading_and_a_question_may_begin_with_what(tmp_path: Path, text: str) -> None:
    assert list(check_links.problems(page(tmp_path, text))) == []
