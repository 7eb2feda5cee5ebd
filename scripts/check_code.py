"""Check what pages say in code: files of the clone are there, and so are commands and options.

A word is a path of ours where it ends as our files do, or begins with a folder of the clone; what
programs write elsewhere is none. A path may leave out the folders above a package. A command begins
with `jbodlab`: noun, verb and options have to be known; placeholders in capital letters, and what
follows `--`, are not looked at. An option alone has to be one of some command.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fault_injection.kinds import KINDS
from jbodlab.cli.command import commands
from jbodlab.cli.parser import Parser
from jbodlab.cli.program import commands_of, nouns, parser_of

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^ {0,3}(```|~~~)")
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
ENDINGS = "py|md|sql|tsv|toml|proto"
"""Of files that nobody else has in mind where they are named without a folder of ours."""
PATH = re.compile(r"(?:[\w.*-]+/)*[\w.*-]+\.\w+|(?:[\w.*-]+/)+[\w.*-]*")
GENERATED = {"build", "dist", "demo-output", "replay-output", "rehearsals", "node_modules"}
ELSEWHERE = ("dist/", "build/", "site-packages/", "./")
"""Folders that are made, not kept."""
PLACEHOLDER = re.compile(r"[A-Z][A-Z-]+|\.\.\.")
OPTION = re.compile(r"--[a-z][a-z-]*")
OF_OTHERS = {
    *("--bootstrap-controller", "--execute", "--initial-controllers", "--standalone"),
    *("--plan", "--trace"),
}
"""Options of Kafka's tools, and of the simulation."""
COMMAND = re.compile(r"^(?:\$ |\.venv/bin/)?jbodlab (?P<words>.*)$")
END_OF_CALL = re.compile(r"\s+#.*$|\s*(?:[|;>]|&&).*$")


def problem_of_span(page: Path, span: str) -> str | None:
    """Return what is wrong with a code span; None where nothing is, or it is none of ours."""
    if COMMAND.match(span):
        return problem_of_call(span)
    if option := OPTION.match(span):
        return None if option[0] in _options() | OF_OTHERS else "no command has this option"
    return problem_of_path(page, span) if PATH.fullmatch(span) else None


def problem_of_path(page: Path, text: str) -> str | None:
    """Return what is wrong with a path; one of a package may leave the folders above out."""
    if PLACEHOLDER.search(text):
        return None
    is_ours = text.partition("/")[0] in _folders()
    ends_as_ours = re.search(rf"\.(?:{ENDINGS})$", text)
    if not is_ours and (not ends_as_ours or text.startswith(ELSEWHERE)):
        # A topic and a group, a rate such as 500/s, what a program writes.
        return None
    pattern = re.compile(re.escape(text.rstrip("/")).replace(r"\*", "[^/]*"))
    for file in files():
        for match in pattern.finditer(file):
            before, behind = file[: match.start()], file[match.end() :]
            # A module may be named without its ending.
            if before[-1:] in ("", "/") and (behind[:1] in ("", "/") or behind == ".py"):
                return None
    return None if (page.parent / text).exists() else "no such file"


def problem_of_call(text: str) -> str | None:
    """Return what is wrong with a call of `jbodlab`, or with one behind it on the same line."""
    calls = [each for each in text.split("; ") if COMMAND.match(each)]
    return next(filter(None, map(_problem_of_one, calls)), None)


def _problem_of_one(text: str) -> str | None:
    found = COMMAND.match(text)
    assert found is not None
    try:
        words = shlex.split(END_OF_CALL.sub("", found["words"]))
    except ValueError:
        return None
    if not words or words[0].startswith("-") or PLACEHOLDER.fullmatch(words[0]):
        return None
    nouns_ = words[0].split("|")
    for noun in nouns_:
        if noun not in nouns():
            return f"there is no command `{noun}`"
    found = commands_of(nouns_[0])
    rest = words[1:]
    path = nouns_[0]
    if path not in found:
        if not rest or rest[0].startswith("-") or PLACEHOLDER.fullmatch(rest[0]):
            return None
        for verb in rest[0].split("|"):
            if f"{path} {verb}" not in found:
                return f"`{path}` has no verb `{verb}`"
        path, rest = f"{path} {rest[0].split('|')[0]}", rest[1:]
    if path == "inject" and rest and re.fullmatch("[a-z-]+", rest[0]) and rest[0] not in KINDS:
        return f"there is no fault {rest[0]}"
    known = _parser(path).option_names()
    for word in rest:
        if word == "--":
            break
        name = word.strip("[]").partition("=")[0]
        if re.fullmatch(r"--[a-z][a-z-]*", name) and name not in known:
            return f"`{path}` has no option {name}"
    return None


def problems(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield number, text and what is wrong, for each code span and each command in a fence."""
    for number, line, is_fenced in lines(page):
        if is_fenced:
            call = line.strip()
            if COMMAND.match(call) and (wrong := problem_of_call(call)):
                yield number, call, wrong
            continue
        for _, span in SPAN.findall(line):
            if wrong := problem_of_span(page, span.strip()):
                yield number, span, wrong


def lines(page: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield number, text and whether it is in a fence, for each line but those of fences."""
    fence = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if found := FENCE.match(line):
            fence = found[1] if fence is None else None if found[1] == fence else fence
        else:
            yield number, line, fence is not None


@cache
def _parser(path: str) -> Parser:
    return parser_of(commands()[path])


@cache
def _options() -> frozenset[str]:
    """Return the options of all commands."""
    return frozenset(name for path in commands() for name in _parser(path).option_names())


@cache
def _folders() -> frozenset[str]:
    return frozenset(file.partition("/")[0] for file in files() if "/" in file)


@cache
def files() -> tuple[str, ...]:
    """Return the files of the clone, without what is made or hidden."""
    found = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [one for one in subfolders if one[0] != "." and one not in GENERATED]
        found += [str(Path(folder, name).relative_to(ROOT)) for name in names]
    return tuple(found)
