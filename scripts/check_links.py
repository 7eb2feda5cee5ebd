"""Check every Markdown page: its links, what it says in code, and the length of sentences.

    .venv/bin/python scripts/check_links.py [FILE ...]

Without files: all pages of the clone, and the Python files of `check_comments`. Headings are named
as public forges name them. Links to other hosts are not followed. Paths and commands in code are
those of `check_code`, lengths those of `check_lengths`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import check_code, check_comments, check_lengths  # noqa: E402 - it is found by the path above

_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
_ANCHOR = re.compile(r"<[^>]+\b(?:id|name)=\"([^\"]+)\"")
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def main(arguments: list[str]) -> int:
    """Print what is wrong, one line each; returns the exit code."""
    files = [Path(name).resolve() for name in arguments] or [*_pages(), *_modules()]
    wrong = [line for file in files for line in problems(file)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def problems(page: Path) -> Iterator[str]:
    """Yield one line for each link of a page that leads nowhere, and each wrong piece of code.

    Of a Python file: one for each sentence of its comments that is wrong.
    """
    shown = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
    if page.suffix == ".py":
        for number, text, reason in check_comments.problems(page):
            yield f"{shown}:{number}: {text} ...: {reason}"
        return
    for number, text, reason in check_code.problems(page):
        yield f"{shown}:{number}: `{text}`: {reason}"
    if str(shown) not in check_lengths.GENERATED:
        for number, text, reason in check_lengths.problems(_prose(page)):
            yield f"{shown}:{number}: {text} ...: {reason}"
    for number, text in _prose(page):
        line = _CODE.sub("", text)
        targets = _LINK.findall(line) + _DEFINITION.findall(line)
        for target in targets:
            if not _ELSEWHERE.match(target) and (reason := _missing(page, target)):
                yield f"{shown}:{number}: {target}: {reason}"


def _missing(page: Path, target: str) -> str | None:
    path, _, anchor = unquote(target).partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"no heading has the anchor '{anchor}'"
    return None


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page: of its headings, and those written as HTML."""
    found: set[str] = set()
    for _, line in _prose(page):
        found.update(_ANCHOR.findall(line))
        if heading := _HEADING.match(line):
            name = base = slug(heading[1])
            count = 0
            while name in found:
                count += 1
                name = f"{base}-{count}"
            found.add(name)
    return frozenset(found)


def slug(heading: str) -> str:
    """Return a heading's anchor: lower case, without punctuation, a hyphen for each space."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside fenced code, with their numbers from 1."""
    return ((number, line) for number, line, is_fenced in check_code.lines(page) if not is_fenced)


def _pages() -> list[Path]:
    return sorted(ROOT / name for name in check_code.files() if name.endswith(".md"))


def _modules() -> list[Path]:
    return sorted(
        ROOT / name
        for name in check_code.files()
        if name.endswith(".py") and name.startswith(check_comments.ROOMS)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
