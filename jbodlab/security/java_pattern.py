r"""Regular expressions of Java, as Kafka's settings have them, by those of Python.

The two languages differ: `\w` and `\d` are ASCII in Java, `.` stops at five line ends, `$` stands
before each of them at the end, classes have unions and intersections. A part that means the same to
both, or can be written so that it does, is translated; everything else is refused. An expression
must never match something else than in Kafka, since it decides who somebody is.

    atoms        characters, `.`, escapes of single characters, `\Q...\E`
    classes      `[...]` with ranges, `^`, unions and one `&&`; `\d \w \s \h \v`, `\p{Alpha}` and
                 the other classes of ASCII
    groups       `(...)`, `(?:...)`, `(?<name>...)`, `(?>...)`, looking ahead and behind, `(?i)` and
                 `(?s)`
    quantifiers  all; where they repeat a group, it has no groups of its own and is never empty
    the rest     `|`, `^`, `$`, `\A`, `\z`, `\Z`, `\1` to `\9`, `\k<name>`

Source: `java.util.regex.Pattern`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Ranges = tuple[tuple[int, int], ...]
"""Code points, as first and last ones, ascending and apart."""

LAST = 0x10FFFF
_LINE_ENDS = "\n\r\x85\u2028\u2029"
_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})")
_POSIX = re.compile(r"([pP])\{(\w+)\}", re.ASCII)
_COUNT = re.compile(r"\{[0-9]{1,4}(,[0-9]{0,4})?\}")
_NAME = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")
_FLAGS = re.compile(r"([is]*)(?:-([is]+))?([:)])")


class JavaPatternError(ValueError):
    """An expression that is wrong, or that may mean something else to Python."""

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(
            f"{problem} at {position} of {text!r}: this is the syntax of Java's regular "
            "expressions, of which not all is supported"
        )


def ranges(*found: tuple[int, int]) -> Ranges:
    """Return code points in order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(found):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def chars(text: str) -> Ranges:
    """Return single characters."""
    return ranges(*((ord(each), ord(each)) for each in text))


def without(some: Ranges) -> Ranges:
    """Return all other code points."""
    start, found = 0, []
    for first, last in some:
        if start < first:
            found.append((start, first - 1))
        start = last + 1
    return ranges(*found, *([(start, LAST)] if start <= LAST else []))


def both(one: Ranges, other: Ranges) -> Ranges:
    """Return what is in both."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return ranges(*(each for each in pairs if each[0] <= each[1]))


def _spelled(some: Ranges) -> str:
    """Return a class of Python."""
    if not some:
        return "(?!)"
    words = (f"\\U{first:08x}-\\U{last:08x}" for first, last in some)
    return f"[{''.join(words)}]"


_LOWER, _UPPER, _DIGIT = (ranges((ord(first), ord(last))) for first, last in ("az", "AZ", "09"))
_ALPHA = ranges(*_LOWER, *_UPPER)
_ALNUM = ranges(*_ALPHA, *_DIGIT)
_GRAPH = ranges((0x21, 0x7E))
_SPACE = chars(" \t\n\x0b\f\r")
_BLANKS = chars(" \t\xa0\u1680\u180e\u202f\u205f\u3000")
_CLASSES = {
    "d": _DIGIT,
    "w": ranges(*_ALNUM, *chars("_")),
    "s": _SPACE,
    "h": ranges(*_BLANKS, (0x2000, 0x200A)),
    "v": chars("\x0b\f" + _LINE_ENDS),
}
_NAMED = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ranges((0, 0x7F)),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _ALNUM,
    "Punct": both(_GRAPH, without(_ALNUM)),
    "Graph": _GRAPH,
    "Print": ranges((0x20, 0x7E)),
    "Blank": chars(" \t"),
    "Cntrl": ranges((0, 0x1F), (0x7F, 0x7F)),
    "XDigit": ranges(*_DIGIT, (ord("a"), ord("f")), (ord("A"), ord("F"))),
    "Space": _SPACE,
}


def compiled(text: str) -> re.Pattern[str]:
    """Translate an expression.

    Raises:
        JavaPatternError: it is none of Java's, or one that cannot be translated.
    """
    reader = _Reader(text)
    translated = reader.alternatives()
    if not reader.at_end:
        raise reader.error("an unmatched )")
    try:
        return re.compile(translated)
    except (re.error, OverflowError) as error:
        raise JavaPatternError(text, 0, str(error)) from error


class _Reader:
    """Reads an expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = self._dot_is_all = False
        self._begun = 0
        """Groups that capture."""
        self._ended: set[str] = set()
        """Numbers and names of those that have ended."""
        self._may_be_empty = True
        """Whether the last atom may match nothing."""
        self._has_groups = False
        """Whether the last atom has groups that capture."""

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def error(self, problem: str) -> JavaPatternError:
        return JavaPatternError(self._text, self._at, problem)

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def alternatives(self) -> str:
        """Read up to the end of a group, or of all."""
        flags = self._ignores_case, self._dot_is_all
        begun = self._begun
        words, may_be_empty = [], False
        while True:
            words.append(self._sequence())
            may_be_empty |= self._may_be_empty
            if not self._take("|"):
                break
            words.append("|")
        self._ignores_case, self._dot_is_all = flags
        self._may_be_empty, self._has_groups = may_be_empty, self._begun > begun
        return "".join(words)

    def _sequence(self) -> str:
        words, may_be_empty = [], True
        while not self.at_end and self._peek() not in "|)":
            atom = self._atom()
            words.append(atom + self._quantifier(atom))
            may_be_empty &= self._may_be_empty
        self._may_be_empty = may_be_empty
        return "".join(words)

    def _quantifier(self, atom: str) -> str:
        begin = self._at
        count = self._match(_COUNT)
        if count is None and self._peek() and self._peek() in "?*+":
            self._at += 1
        if self._at == begin:
            if self._peek() == "{":
                raise self.error("a { that begins no count")
            return ""
        text = self._text[begin : self._at]
        if not atom or atom.startswith("(?#"):
            raise self.error("a quantifier of nothing")
        repeats = text != "?" and text not in ("{0,1}", "{1}", "{0}")
        if repeats and (self._has_groups or self._may_be_empty):
            raise self.error("a repeated group that has groups, or may be empty")
        if text[0] in "?*" or text.startswith("{0"):
            self._may_be_empty = True
        if self._peek() and self._peek() in "?+":
            text += self._peek()
            self._at += 1
        if self._peek() and self._peek() in "?*+{":
            raise self.error("a quantifier of a quantifier")
        return text

    def _atom(self) -> str:
        self._may_be_empty = self._has_groups = False
        sign = self._peek()
        self._at += 1
        match sign:
            case "(":
                return self._group()
            case "[":
                return _spelled(self._class())
            case ".":
                return r"[\s\S]" if self._dot_is_all else f"[^{_LINE_ENDS}]"
            case "^":
                return self._place(r"\A")
            case "$":
                return self._place(_END)
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                self._at -= 1
                raise self.error("a quantifier of nothing")
        return self._literal(sign)

    def _place(self, text: str) -> str:
        self._may_be_empty = True
        if self._peek() and self._peek() in "?*+{":
            raise self.error("a quantifier of a place")
        return text

    def _literal(self, sign: str) -> str:
        own = self._cased(chars(sign))
        return re.escape(sign) if len(own) == 1 else _spelled(own)

    def _cased(self, some: Ranges) -> Ranges:
        """Add the other case, which Java knows of ASCII only."""
        if not self._ignores_case:
            return some
        other = [
            (ord(chr(code).swapcase()),) * 2
            for first, last in both(some, _ALPHA)
            for code in range(first, last + 1)
        ]
        return ranges(*some, *((first, last) for first, last in other))

    def _escaped(self) -> str:
        if self._take("Q"):
            return self._quoted()
        if self._take("A"):
            return self._place(r"\A")
        if self._take("z"):
            return self._place(r"\Z")
        if self._take("Z"):
            return self._place(_END)
        sign = self._peek()
        if sign and sign in "123456789":
            self._at += 1
            if self._peek().isdecimal():
                raise self.error("a reference of two digits")
            return self._reference(sign, f"(?:\\{sign})")
        if self._take("k"):
            name = self._match(_NAME)
            if name is None:
                raise self.error("a reference without a name")
            return self._reference(name[1], f"(?P={name[1]})")
        found = self._escaped_class()
        if found is not None:
            return _spelled(found)
        return self._literal(self._escaped_sign())

    def _reference(self, name: str, text: str) -> str:
        if name not in self._ended or self._ignores_case:
            raise self.error(f"a reference to the group {name}")
        self._may_be_empty = True
        return text

    def _quoted(self) -> str:
        end = self._text.find("\\E", self._at)
        text = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        if self._peek() and self._peek() in "?*+{":
            raise self.error("a quantifier of a quotation")
        self._may_be_empty = not text
        return "".join(map(self._literal, text))

    def _escaped_class(self) -> Ranges | None:
        """Read the class that an escape stands for; None where it is a character."""
        named = self._match(_POSIX)
        if named is not None:
            name = named[2]
            if name not in _NAMED or (self._ignores_case and name in ("Lower", "Upper")):
                raise self.error(f"the class {name}")
            return _NAMED[name] if named[1] == "p" else without(_NAMED[name])
        sign = self._peek()
        if sign.lower() not in _CLASSES or not sign:
            return None
        self._at += 1
        found = _CLASSES[sign.lower()]
        return found if sign.islower() else without(found)

    def _escaped_sign(self) -> str:
        code = self._match(_HEX)
        if code is not None:
            return chr(int(code[1] or code[2], 16))
        sign = self._peek()
        self._at += 1
        if sign in _ESCAPES:
            return _ESCAPES[sign]
        if not sign or (sign.isascii() and sign.isalnum()):
            raise self.error(f"the escape \\{sign}")
        return sign

    def _group(self) -> str:
        if not self._take("?"):
            return self._captured("(", "")
        if self._peek() == "<" and self._peek(2) not in ("<=", "<!"):
            name = self._match(_NAME)
            if name is None or name[1] in self._ended:
                raise self.error("the name of a group")
            return self._captured(f"(?P<{name[1]}>", name[1])
        for kind in ("=", "!", "<=", "<!", ">"):
            if self._take(kind):
                inner = self._closed(self.alternatives)
                if self._has_groups:
                    raise self.error(f"a group in (?{kind}")
                return f"(?{kind}{inner})" if kind == ">" else self._place(f"(?{kind}{inner})")
        return self._flagged()

    def _captured(self, start: str, name: str) -> str:
        self._begun += 1
        number = self._begun
        inner = self._closed(self.alternatives)
        self._ended |= {str(number), *([name] if name else [])}
        self._has_groups = True
        return f"{start}{inner})"

    def _flagged(self) -> str:
        found = self._match(_FLAGS)
        if found is None:
            raise self.error("a group of this kind")
        before = self._ignores_case, self._dot_is_all
        on, off = found[1], found[2] or ""
        self._ignores_case = ("i" in on or self._ignores_case) and "i" not in off
        self._dot_is_all = ("s" in on or self._dot_is_all) and "s" not in off
        if found[3] == ")":
            # Up to the end of the group around it.
            return self._place("")
        inner = self._closed(self.alternatives)
        self._ignores_case, self._dot_is_all = before
        return f"(?:{inner})"

    def _closed(self, read: Callable[[], str]) -> str:
        found = read()
        if not self._take(")"):
            raise self.error("a ( without )")
        return found

    def _class(self) -> Ranges:
        """Read a class behind its bracket."""
        is_negated = self._take("^")
        if self._peek() in ("]", "&"):
            raise self.error("this sign at the begin of a class")
        found, has_parts = self._union()
        if self._take("&&"):
            has_parts = True
            if self._peek() in ("]", "&", "^"):
                raise self.error("this sign behind &&")
            found = both(found, self._union()[0])
        if not self._take("]"):
            raise self.error("a class of this kind")
        if is_negated and has_parts:
            raise self.error("a negated class of classes")
        return without(found) if is_negated else found

    def _union(self) -> tuple[Ranges, bool]:
        """Read items up to `&&` or the end; returns whether a class is one of them."""
        found: list[tuple[int, int]] = []
        has_parts = False
        while self._peek() not in ("", "]") and self._peek(2) != "&&":
            if self._take("["):
                found += self._class()
                has_parts = True
            else:
                found += self._item()
        return ranges(*found), has_parts

    def _item(self) -> Ranges:
        if self._take("\\"):
            named = self._escaped_class()
            if named is not None:
                if self._peek() == "-" and self._peek(2) != "-]":
                    raise self.error("a range from a class")
                return named
            first = self._escaped_sign()
        else:
            first = self._peek()
            self._at += 1
        if self._peek() != "-" or self._peek(2) == "-]":
            return self._cased(chars(first))
        self._at += 1
        if self._peek() in ("", "[", "-") or self._peek(2) == "&&":
            raise self.error("a range without end")
        last = self._peek()
        self._at += 1
        if last == "\\":
            last = self._escaped_sign()
        if last < first:
            raise self.error("a range that goes down")
        return self._cased(ranges((ord(first), ord(last))))
