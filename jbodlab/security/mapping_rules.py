r"""Rules that make a principal's name of a certificate's subject: `ssl.principal.mapping.rules`.

    rules    rule ("," rule)*
    rule     "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule applies whose pattern matches the whole subject; DEFAULT is the subject itself. Each
place of the subject that the pattern finds then becomes the replacement, in which `$1` and
`${name}` are the pattern's groups. In both parts a `/` is written `\/`, and L or U make small or
capital letters of the result. Patterns and replacements are Java's (`java_pattern`).

Source: `org.apache.kafka.common.security.ssl.SslPrincipalMapper`, KIP-371.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jbodlab.security import java_pattern
from jbodlab.vocabulary.errors import ConfigError

DEFAULT = "DEFAULT"
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_SIGN = re.compile(r"\\(.)|\$\{([a-zA-Z][a-zA-Z0-9]*)\}|\$([0-9]+)|([^\\$])", re.DOTALL)
_REFERENCE = re.compile(r"\$([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule.

    Attributes:
        parts: Of the replacement: texts, and numbers or names of groups.
    """

    pattern: re.Pattern[str]
    parts: tuple[tuple[str, int | str | None], ...]
    change_case: Callable[[str], str] = str

    def may_halve(self, subject: str) -> bool:
        """Return whether Java might find something between the halves of a character (UTF-16)."""
        return not self.pattern.pattern.startswith(r"\A") and max(subject, default="") > "\uffff"

    def apply(self, subject: str) -> str | None:
        """Return the name; None where the pattern does not match."""
        if self.pattern.fullmatch(subject) is None:
            return None
        words, at, end = [], 0, 0
        # Python would also find something behind an empty place, where Java has gone on.
        while at <= len(subject) and (found := self.pattern.search(subject, at)) is not None:
            words.append(subject[end : found.start()])
            words += [text if group is None else found[group] or "" for text, group in self.parts]
            end = found.end()
            at = end + (found.start() == end)
        return self.change_case("".join([*words, subject[end:]]))


@dataclass(frozen=True, slots=True)
class MappingRules:
    """All rules of a listener, in their order."""

    rules: tuple[Rule | None, ...]
    """None for DEFAULT."""

    def name_of(self, subject: str) -> str | None:
        """Return the name for a subject; None where no rule applies, or where it is not known."""
        for rule in self.rules:
            if rule is not None and rule.may_halve(subject):
                return None
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        return None


SUBJECT_ITSELF = MappingRules((None,))


def parse(key: str, text: str) -> MappingRules:
    """Read the rules of a setting.

    Args:
        key: The setting, for errors.
        text: Its value.

    Raises:
        ConfigError: a rule is malformed.
    """
    rules: list[Rule | None] = []
    position = 0
    while position < len(text):
        found = _RULE.match(text, position)
        if found is None:
            raise ConfigError(
                key,
                text[position:],
                "expected DEFAULT or RULE:pattern/replacement/, then L, U or ,",
            )
        rules.append(None if found[1] else _rule(key, found[2], found[3], found[4]))
        position = found.end()
    return MappingRules(tuple(rules)) if rules else SUBJECT_ITSELF


def _rule(key: str, pattern: str, replacement: str, case: str) -> Rule:
    try:
        compiled = java_pattern.compiled(pattern)
    except java_pattern.JavaPatternError as error:
        raise ConfigError(key, pattern, str(error)) from error
    try:
        parts = _parts(compiled, replacement)
    except ValueError as error:
        raise ConfigError(key, replacement, str(error)) from error
    change: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper}
    return Rule(pattern=compiled, parts=parts, change_case=change.get(case, str))


def _parts(pattern: re.Pattern[str], replacement: str) -> tuple[tuple[str, int | str | None], ...]:
    """Read a replacement; raises ValueError for what would fail at each login."""
    text = _with_literal_references(replacement, pattern.groups)
    parts: list[tuple[str, int | str | None]] = []
    at = 0
    while at < len(text):
        sign = _SIGN.match(text, at)
        if sign is None:
            raise ValueError(f"{text[at:]!r} is no text, and no reference to a group, of Java")
        escaped, name, digits, plain = sign.groups()
        at = sign.end()
        if name is not None:
            if name not in pattern.groupindex:
                raise ValueError(f"the pattern has no group {name}")
            parts.append(("", name))
        elif digits is not None:
            # As many digits as name a group; the others are text.
            count = len(digits)
            while count > 1 and int(digits[:count]) > pattern.groups:
                count -= 1
            if int(digits[:count]) > pattern.groups:
                raise ValueError(f"the pattern has no group {digits[:count]}")
            parts.append(("", int(digits[:count])))
            at -= len(digits) - count
        else:
            parts.append((escaped or plain, None))
    return tuple(parts)


def _with_literal_references(replacement: str, groups: int) -> str:
    """Return a replacement in which references to groups that are not there are text, as in Kafka.

    Kafka counts the places of all of them before it writes the first escape: a second one makes it
    escape a wrong sign.
    """
    text = replacement
    for found in _REFERENCE.finditer(replacement if groups else ""):
        group = int(found[1])
        while group > groups and group >= 10:
            group //= 10
        if group > groups and not found[1].startswith("0"):
            text = f"{text[: found.start()]}\\{text[found.start() :]}"
    return text
