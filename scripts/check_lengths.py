"""Check how pages are to read: no sentence and no cell of a table has more than 40 words.

No sentence begins with Who, What or Whoever: such a clause stands for a noun that has a name, and a
reader has to guess it. A question may, and a heading. A piece of code counts as one word. Generated
pages are looked at where they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

WORDS_MAX = 40
GENERATED = {"docs/data-dictionary.md"}
"""Made from the declarations of tables."""

_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_TARGET = re.compile(r"\]\([^)]*\)")
_BEGIN = re.compile(r"\s*([*-]|\d+\.|#+)\s")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_NAMELESS = re.compile(r"(?:\s*(?:[*-]|\d+\.)\s)?[^\w#]*(Whoever|Who|What)\s(?!.*\?\W*$)")
_BAR = re.compile(r"(?<!\\)\|")


def problems(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield number, first words and what is wrong, for lines outside of fences."""
    for number, kind, text in _pieces(lines):
        if (count := _count(text)) > WORDS_MAX:
            begin = " ".join(text.split()[:4])
            yield number, begin, f"a {kind} of {count} words, at most {WORDS_MAX}"
        if kind == "sentence" and (found := _NAMELESS.match(text)):
            yield number, " ".join(text.split()[:4]), f"a sentence that begins with {found[1]}"


def _pieces(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield number of the line, kind and text of each sentence and each cell."""
    begun, paragraph, last = 0, "", 0
    for number, line in [*lines, (0, "")]:
        text = line.strip()
        is_code = line.startswith("    ") and not paragraph
        if not text or is_code or text[0] == "|" or _BEGIN.match(line) or number != last + 1:
            for sentence in _END_OF_SENTENCE.split(_CODE.sub("code", paragraph)):
                yield begun, "sentence", sentence
            paragraph = ""
        last = number
        if text[:1] == "|":
            for cell in _BAR.split(_CODE.sub("code", text)):
                yield number, "cell", cell
        elif text and not is_code:
            begun = begun if paragraph else number
            # A heading is a sentence of its own.
            paragraph = f"{paragraph} {text}".strip() + (". " if text[0] == "#" else "")


def _count(text: str) -> int:
    return sum(any(map(str.isalnum, word)) for word in _TARGET.sub("]", text).split())
