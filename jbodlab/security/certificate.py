"""Fields of an X.509 certificate, and how its subject is written (RFC 5280, RFC 2253).

A certificate is nested values of DER: a tag of one byte, a length, and so many bytes.

    Certificate     SEQUENCE   TBSCertificate, algorithm, signature
    TBSCertificate  SEQUENCE   [0] version?, serial, algorithm, issuer, validity, subject, key,
                               [1] id?, [2] id?, [3] extensions?
    Name            SEQUENCE OF SET OF SEQUENCE (type OBJECT IDENTIFIER, value)

The text of a name is Java's (`javax.security.auth.x500.X500Principal.getName`), as principals of
Kafka have it: other libraries escape fewer signs, and name more types.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from jbodlab.vocabulary.errors import DecodeError

SEQUENCE, SET, OBJECT_IDENTIFIER, UTC_TIME = 0x30, 0x31, 0x06, 0x17
VERSION, EXTENSIONS = 0xA0, 0xA3
SUBJECT_ALTERNATIVE_NAME = bytes.fromhex("551d11")
DSA = bytes.fromhex("2a8648ce380401")

LATE_S = 0.05
"""A timer may be a moment early, and certificates are valid through their last second."""

KEYWORDS = {
    bytes.fromhex("550403"): "CN",
    bytes.fromhex("550406"): "C",
    bytes.fromhex("550407"): "L",
    bytes.fromhex("550408"): "ST",
    bytes.fromhex("550409"): "STREET",
    bytes.fromhex("55040a"): "O",
    bytes.fromhex("55040b"): "OU",
    bytes.fromhex("0992268993f22c640119"): "DC",
    bytes.fromhex("0992268993f22c640101"): "UID",
}
"""The types that RFC 2253 has a short name for."""

ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
"""Types of text, each with its encoding."""

ESCAPED = frozenset(',=+<>#;"\\')


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Fields that are read of a certificate.

    Attributes:
        subject: Its name as text; empty where it has none.
        alternative_names: Tag and bytes of each further name.
        not_before, not_after: First and last moment at which it is valid.
        key_algorithm: Object identifier of the key's kind, as its bytes.
    """

    subject: str
    alternative_names: frozenset[tuple[int, bytes]]
    not_before: datetime.datetime
    not_after: datetime.datetime
    key_algorithm: bytes

    def seconds_left(self, now: datetime.datetime) -> float:
        """Return after how many seconds it is not valid any more; negative from then on."""
        return (self.not_after - now).total_seconds() + LATE_S


@dataclass(frozen=True, slots=True)
class _Value:
    """One value of DER."""

    tag: int
    content: bytes
    whole: bytes
    """With its tag and length."""

    def parts(self) -> list[_Value]:
        """Return the values that it consists of."""
        return list(_values(self.content))


def read(der: bytes) -> Certificate:
    """Read a certificate; its signature is not checked here.

    Raises:
        DecodeError: it is none.
    """
    try:
        fields = _values(der).__next__().parts()[0].parts()
        if fields[0].tag == VERSION:
            del fields[0]
        _, _, _, validity, subject, key, *others = fields
        not_before, not_after = map(_moment, validity.parts())
        return Certificate(
            subject=_name(subject),
            alternative_names=_alternative_names(others),
            not_before=not_before,
            not_after=not_after,
            key_algorithm=key.parts()[0].parts()[0].content,
        )
    except (IndexError, ValueError, StopIteration) as error:
        raise DecodeError(f"not a certificate: {error or type(error).__name__}") from error


def _values(data: bytes) -> Iterator[_Value]:
    position = 0
    while position < len(data):
        start, tag, length = position, data[position], data[position + 1]
        position += 2
        if length >= 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[position : position + count])
            position += count
        end = position + length
        if end > len(data):
            raise ValueError("a value reaches beyond its end")
        yield _Value(tag, data[position:end], data[start:end])
        position = end


def _moment(value: _Value) -> datetime.datetime:
    text = value.content.decode("ascii")
    if value.tag == UTC_TIME:
        # RFC 5280, 4.1.2.5.1: years of two digits are those from 1950 on.
        text = ("19" if text[0] >= "5" else "20") + text
    return datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)


def _alternative_names(fields: list[_Value]) -> frozenset[tuple[int, bytes]]:
    for field in fields:
        if field.tag != EXTENSIONS:
            continue
        for extension in field.parts()[0].parts():
            parts = extension.parts()
            if parts[0].content == SUBJECT_ALTERNATIVE_NAME:
                names = parts[-1].parts()[0].parts()
                return frozenset((each.tag, each.content) for each in names)
    return frozenset()


def _name(name: _Value) -> str:
    relative = ("+".join(map(_attribute, each.parts())) for each in reversed(name.parts()))
    return ",".join(relative)


def _attribute(attribute: _Value) -> str:
    kind, value = attribute.parts()
    keyword, encoding = KEYWORDS.get(kind.content), ENCODINGS.get(value.tag)
    if keyword is None or encoding is None:
        return f"{keyword or _dotted(kind.content)}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode(encoding))}"


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    leading = len(text) - len(text.lstrip(" \r"))
    blanks = [f"\\{each}" for each in text[:leading]]
    signs = ["\\00" if each == "\0" else f"\\{each}" if each in ESCAPED else each for each in inner]
    trailing = [f"\\{each}" for each in text[leading + len(inner) :]]
    return "".join((*blanks, *signs, *trailing))


def _dotted(identifier: bytes) -> str:
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
