"""Check how comments and docstrings of all Python files begin their sentences.

As on pages (`check_lengths`), no sentence begins with Who, What or Whoever, and no meaning of an
argument, an attribute or a result does. A question may.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOMS = (
    *("broker/", "controller/", "jbodlab/", "storage_tool/", "admin_tool/", "fault_injection/"),
    *("lab/", "analytics/", "pyspark_kraft_metadata/", "scripts/", "bench/", "examples/", "tests/"),
)

_NAMELESS = re.compile(r"\b(?:Whoever|Who|What)\b")
_SENTENCE = re.compile(
    r"""
    (?:
        \A\s* | \n\s*\n\s*                  # a paragraph
        | [.!?:][\"'`)*]*\s+                # behind a sentence, or behind the name of an argument
        | \n\s*(?:[*-]|\d+\.)\s+            # an item of a list
    )
    ["'(*]*(?P<word>Whoever|Who|What)\b
    (?P<rest>.*?)(?=[.!?](?:["'`)*]*(?:\s|\Z))|\n\s*\n|\Z)(?P<end>[.!?]?)
    """,
    re.VERBOSE | re.DOTALL,
)


def problems(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, first words and what is wrong of each sentence without a noun in front."""
    source = file.read_text()
    if not _NAMELESS.search(source):
        return
    for line, text in sorted([*_docstrings(source), *_comments(source)]):
        for found in _SENTENCE.finditer(text):
            if found["end"] != "?":
                begin = " ".join(text[found.start("word") :].split()[:4])
                number = line + text.count("\n", 0, found.start("word"))
                yield number, begin, f"a sentence that begins with {found['word']}"


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield first line and text of each string that stands alone, those of attributes included."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.lineno, node.value.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield first line and text of each comment; lines of their own below each other are one."""
    begun, texts, goes_on = 0, list[str](), False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        number, text = token.start[0], token.string.lstrip("#:")
        stands_alone = not token.line[: token.start[1]].strip()
        if goes_on and stands_alone and number == begun + len(texts):
            texts.append(text)
            continue
        if texts:
            yield begun, "\n".join(texts)
        begun, texts, goes_on = number, [text], stands_alone
    if texts:
        yield begun, "\n".join(texts)
