r"""Rules that make a principal's name of a certificate's subject: `ssl.principal.mapping.rules`.

    rules    rule ("," rule)*
    rule     "DEFAULT" | "RULE:" pattern "/" replacement "/" ["L" | "U"]

The first rule applies whose pattern matches the whole subject; DEFAULT is the subject itself. In a
replacement `$1` to `$9` are the pattern's groups, in both parts a `/` is written `\/`, and L or U
make small or capital letters of the result.

Source: `org.apache.kafka.common.security.ssl.SslPrincipalMapper`, KIP-371.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from jbodlab.vocabulary.errors import ConfigError

DEFAULT = "DEFAULT"
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_SIGN = re.compile(r"\\(.)|\$(\d)|(.)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule."""

    pattern: re.Pattern[str]
    replacement: str
    change_case: Callable[[str], str] = str

    def apply(self, subject: str) -> str | None:
        """Return the name; None where the pattern does not match."""
        if self.pattern.fullmatch(subject) is None:
            return None
        return self.change_case(self.pattern.sub(self._replaced, subject))

    def _replaced(self, match: re.Match[str]) -> str:
        words = []
        for sign in _SIGN.finditer(self.replacement):
            escaped, group, plain = sign.groups()
            if group is None:
                words.append(escaped or plain)
            elif int(group) <= self.pattern.groups:
                words.append(match[int(group)] or "")
            else:
                words.append(f"${group}")
        return "".join(words)


@dataclass(frozen=True, slots=True)
class MappingRules:
    """All rules of a listener, in their order."""

    rules: tuple[Rule | None, ...]
    """None for DEFAULT."""

    def name_of(self, subject: str) -> str | None:
        """Return the name for a subject; None where no rule applies."""
        for rule in self.rules:
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
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(key, pattern, f"not a regular expression: {error}") from error
    change: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper}
    return Rule(pattern=compiled, replacement=replacement, change_case=change.get(case, str))
