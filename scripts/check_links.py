"""Check the relative links of every Markdown page: the file is there, and so is the heading.

    python scripts/check_links.py [FILE ...]

Without files: all pages of the clone. Headings are named as public forges name them. Links to other
hosts are not followed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
GENERATED = {"build", "dist", "demo-output", "replay-output", "rehearsals", "node_modules"}

_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK = re.compile(r"\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
_ANCHOR = re.compile(r"<[^>]+\b(?:id|name)=\"([^\"]+)\"")
_ELSEWHERE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def main(arguments: list[str]) -> int:
    """Print what is wrong, one line for each link; returns the exit code."""
    pages = [Path(name).resolve() for name in arguments] or _pages()
    wrong = [line for page in pages for line in problems(page)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def problems(page: Path) -> Iterator[str]:
    """Yield one line for each link of a page that leads nowhere."""
    for number, text in _prose(page):
        line = _CODE.sub("", text)
        targets = _LINK.findall(line) + _DEFINITION.findall(line)
        for target in targets:
            if not _ELSEWHERE.match(target) and (reason := _missing(page, target)):
                shown = page.relative_to(ROOT) if page.is_relative_to(ROOT) else page
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
    fence = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if found := _FENCE.match(line):
            fence = found[1] if fence is None else None if found[1] == fence else fence
        elif fence is None:
            yield number, line


def _pages() -> list[Path]:
    found = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [one for one in subfolders if one[0] != "." and one not in GENERATED]
        found += [Path(folder, name) for name in names if name.endswith(".md")]
    return sorted(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
