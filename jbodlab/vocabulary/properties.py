r"""Java `.properties` text to a dict and back.

    key=value      key:value      key value        all three separate; blanks around are dropped
    # comment      ! comment                       the first visible character decides
    a=one \                                        a backslash at the end joins the next line,
      two                                          whose leading blanks are dropped
    \t \n \r \f \\ \= \: \  \u0041               escapes; any other escaped character is itself

Source: `java.util.Properties`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

BLANKS = " \t\f"
_NATURAL_LINE = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(?:u(?P<hex>[0-9A-Fa-f]{4})|(?P<other>.)|(?P<end>$))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CONTROL_ESCAPES = {character: "\\" + letter for letter, character in _CONTROL.items()}


def parse(text: str) -> dict[str, str]:
    """Read properties text; of a key given twice the last value counts.

    Raises:
        ValueError: a Unicode escape has no four hexadecimal digits.
    """
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        try:
            found[_unescape(key)] = _unescape(value)
        except ValueError as error:
            # The value may be a secret.
            raise ValueError(f"{error} at {key}") from None
    return found


def render(values: Mapping[str, str], comments: Iterable[str] = ()) -> str:
    """Return properties text: the comment lines first, then the keys in the mapping's order."""
    lines = [f"#{comment}" for comment in comments]
    lines.extend(f"{_escape(key, True)}={_escape(value, False)}" for key, value in values.items())
    return "".join(f"{line}\n" for line in lines)


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with continuations joined; comments and blank lines are left out."""
    joined: str | None = None
    for natural in _NATURAL_LINE.split(text):
        line = natural.lstrip(BLANKS)
        if joined is None and (not line or line[0] in "#!"):
            continue
        if joined is not None:
            line = joined + line
            joined = None
        if _ends_with_open_escape(line):
            joined = line[:-1]
        else:
            yield line
    if joined:
        yield joined


def _ends_with_open_escape(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Cut at the first separator that is not escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + BLANKS:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANKS)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_unescape_one, text)
    # Two escapes may be the halves of one character beyond the basic plane.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape_one(match: re.Match[str]) -> str:
    if match["hex"] is not None:
        return chr(int(match["hex"], 16))
    other = match["other"] or ""
    if other == "u":
        raise ValueError("malformed \\uxxxx escape")
    return _CONTROL.get(other, other)


def _escape(text: str, is_key: bool) -> str:
    escaped: list[str] = []
    for index, character in enumerate(text):
        if character in _CONTROL_ESCAPES:
            escaped.append(_CONTROL_ESCAPES[character])
        elif character in "\\=:#!" or (character == " " and (is_key or index == 0)):
            escaped.append("\\" + character)
        else:
            escaped.append(character)
    return "".join(escaped)
