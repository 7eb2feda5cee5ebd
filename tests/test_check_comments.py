"""Sentences of comments and docstrings have a noun in front."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_links


def found_in(folder: Path, text: str) -> list[str]:
    path = folder / "module.py"
    path.write_text(text)
    return list(check_links.problems(path))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('"""What a broker says."""', 1),
        ('"""It ends. Who waits is answered."""', 1),
        ('"""Title.\n\nWhoever asks\nis told.\n"""', 3),
        ('"""Title.\n\n* What is left goes.\n"""', 3),
        ('def f():\n    """Return it.\n\n    Args:\n        a: Who asks.\n    """', 5),
        ('def f():\n    """Do it.\n\n    Returns:\n        It\n\n    What is left\n    """', 7),
        ('class A:\n    a = 1\n    """What counts."""', 3),
        ('def f():\n    r"""Return (it). "What" it is."""', 2),
        ("a = 1\n# Whoever asks is told.\nb = 2", 2),
        ("# The log ends. Who\n# waits is answered.", 1),
        ("# The log\n# ends. What is left goes.", 2),
        ("a = 1  # What counts.", 1),
        ("# The log\na = 1  # What counts", 2),
        ("# The log\n\n# What counts", 3),
        ("a = 1  # counts\n# What is left goes.", 2),
        ('"""Is it so? What is left goes."""', 1),
    ],
)
def test_a_sentence_without_a_noun_in_front_is_found(
    tmp_path: Path, text: str, number: int
) -> None:
    (line,) = found_in(tmp_path, text)

    assert f":{number}: " in line
    assert "a sentence that begins with Wh" in line


@pytest.mark.parametrize(
    "text",
    [
        '"""What is a disk? It is a folder."""',
        '"""A client that asks what\nWhat is, and who does."""',
        "# A broker knows who waits.\n# The log knows What.",
        'TEXT = "What is printed is no comment."',
        "a = f(\n    # the log\n    1,  # ends\n    # as it should\n)",
        '"""Whatever it is; whose it is: what it was."""',
    ],
)
def test_a_question_and_a_string_may_begin_so(tmp_path: Path, text: str) -> None:
    assert found_in(tmp_path, text) == []
