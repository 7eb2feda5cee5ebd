"""How settings are declared and read: one table of keys, one reader, one kind of error.

A table maps names to `Key`s (`kafka_configs`). `read` checks every value of a property file against
it and returns `Values`, from which typed getters take them.
Unknown keys are returned, not refused: Kafka's own property files name many that mean nothing here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from jbodlab.security.secret import HIDDEN
from jbodlab.vocabulary.errors import ConfigError

LONG_MAX = 2**63 - 1

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)

_GETTERS = {
    int: "integer",
    int | None: "optional_integer",
    float: "number",
    bool: "flag",
    str: "text",
    str | None: "optional_text",
    tuple[str, ...]: "words",
}
"""The method of `Values` that reads a field of a type."""

REFUSED = "refused: "

_BLANKS = "".join(map(chr, range(33)))
"""Characters that Kafka strips from both ends of a value (Java's `String.trim`)."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


_INTERNAL = frozenset(
    {
        "group.consumer.regex.refresh.interval.ms",
        "log.initial.task.delay.ms",
        "unclean.leader.election.interval.ms",
    }
)
"""Settings that Kafka defines and does not document."""


class ConfigType(Enum):
    """The type of a value: Kafka's `ConfigDef.Type` with the numbers of KIP-569."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Key(msgspec.Struct, frozen=True):
    """One setting.

    Attributes:
        default: Text as in a property file; None for a key that has no default.
        minimum, maximum: Inclusive bounds of an integer or number.
        choices: Permitted texts, compared without regard to case; empty permits any.
        update_mode: Whether a setting of a node or broker may be changed while brokers run.
        synonyms: Settings of a node that a topic or group inherits, the strongest first, each with
            the factor that makes a value of this setting out of its own.
    """

    name: str
    kind: ConfigType
    default: str | None
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    update_mode: str = ""
    synonyms: tuple[tuple[str, int], ...] = ()

    @property
    def has_effect(self) -> bool:
        """Whether setting it changes anything; if not, the meaning says why."""
        return not self.meaning.startswith("ignored: ")

    @property
    def why_refused(self) -> str:
        """Why nothing but the default may be set; empty for most settings."""
        is_refused = self.meaning.startswith(REFUSED)
        return self.meaning.removeprefix(REFUSED) if is_refused else ""

    def refuse(self, name: str, value: str) -> None:
        """Raise ConfigError if it may not be set to a value, under a name of its own."""
        if self.why_refused and value.strip(_BLANKS) != (self.default or ""):
            shown = HIDDEN if self.kind is ConfigType.PASSWORD else value
            raise ConfigError(name, shown, self.why_refused)

    @property
    def is_internal(self) -> bool:
        """Whether it is described only where it is set."""
        return self.name.startswith("internal.") or self.name in _INTERNAL


class Values:
    """The settings of one process: what the file says, else the defaults."""

    def __init__(self, table: Mapping[str, Key], properties: Mapping[str, str]) -> None:
        self._table = table
        self._properties = properties

    @property
    def properties(self) -> Mapping[str, str]:
        """Settings of the file itself."""
        return self._properties

    def is_set(self, name: str) -> bool:
        """Return whether the file itself gives this key a value."""
        return name in self._properties

    def optional_text(self, name: str) -> str | None:
        """Return a value as text; None where there is neither value nor default."""
        return self._properties.get(name, self._table[name].default)

    def text(self, name: str) -> str:
        """Return a value as text.

        Raises:
            ConfigError: the key has neither value nor default.
        """
        value = self.optional_text(name)
        if value is None:
            raise ConfigError(name, "null", "a value is required")
        return value.strip(_BLANKS)

    def optional_integer(self, name: str) -> int | None:
        """Return a value as an integer; None where there is neither value nor default."""
        return None if self.optional_text(name) is None else self.integer(name)

    def integer(self, name: str) -> int:
        """Return a value as an integer inside the range of its key.

        Raises:
            ConfigError: not an integer, or out of range, or missing.
        """
        text = self.text(name)
        try:
            number = parse_integer(text)
        except ValueError:
            raise ConfigError(name, text, "expected an integer") from None
        _check_range(self._table[name], number, text)
        return number

    def number(self, name: str) -> float:
        """Return a value as a number inside the range of its key.

        Raises:
            ConfigError: not a number, or out of range, or missing.
        """
        text = self.text(name)
        try:
            if _NUMBER.fullmatch(text) is None:
                raise ValueError(text)
            number = float(text)
        except ValueError:
            raise ConfigError(name, text, "expected a number") from None
        _check_range(self._table[name], number, text)
        return number

    def flag(self, name: str) -> bool:
        """Return a value as a truth value.

        Raises:
            ConfigError: neither `true` nor `false`.
        """
        text = self.text(name)
        if text.lower() not in ("true", "false"):
            raise ConfigError(name, text, "expected true or false")
        return text.lower() == "true"

    def words(self, name: str) -> tuple[str, ...]:
        """Return a comma-separated value, without blanks around commas and empty entries."""
        value = self.optional_text(name) or ""
        return tuple(word for part in value.split(",") if (word := part.strip(_BLANKS)))

    def settings(self, cls: type[SettingsT], prefix: str = "", **given: Any) -> SettingsT:
        """Return settings as a class whose fields are named after keys.

        Args:
            cls: Its field `log_dirs` is the key `log.dirs`, read as the field's type says.
            prefix: Beginning of keys that fields leave out.
            given: Fields that are not read.

        Raises:
            ConfigError: a value is missing, not of its field's type or out of range.
        """
        for name, kind in _types(cls).items():
            if name not in given:
                key = name.replace("_", ".")
                key = prefix + key if prefix + key in self._table else key
                given[name] = getattr(self, _GETTERS[kind])(key)
        return cls(**given)


@cache
def _types(cls: type) -> Mapping[str, Any]:
    return get_type_hints(cls)


def parse_integer(text: str) -> int:
    """Return the integer that a text is: ASCII digits with at most a sign before them.

    Python's `int` also reads `1_000`, digits of other scripts and blanks, which Kafka refuses.

    Raises:
        ValueError: the text is not such an integer.
    """
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(text)
    return int(text)


def read(table: Mapping[str, Key], properties: Mapping[str, str]) -> tuple[Values, list[str]]:
    """Check a property file against a table.

    Returns:
        The values, and the keys of the file that the table does not have, sorted.

    Raises:
        ConfigError: a value is not of its key's kind, range or choices.
    """
    values = Values(table, properties)
    for name, key in table.items():
        if name in properties:
            _check(key, values)
    return values, sorted(set(properties) - set(table))


def unknown_text(table: Mapping[str, Key], name: str) -> str:
    """Return the warning about a key that the table does not have."""
    return f"unknown configuration {name} is ignored{hint(table, name)}"


def hint(table: Mapping[str, Key], name: str) -> str:
    """Return the question after a key that may be meant; empty where none is like it."""
    similar = difflib.get_close_matches(name, table, n=1, cutoff=0.8)
    return f" (did you mean {similar[0]}?)" if similar else ""


def without_effect(table: Mapping[str, Key], names: Iterable[str]) -> list[Key]:
    """Return the settings of these names that have no effect, sorted by name."""
    found = (table.get(name) for name in sorted(names))
    return [key for key in found if key is not None and not key.has_effect]


def _check(key: Key, values: Values) -> None:
    key.refuse(key.name, values.optional_text(key.name) or "")
    match key.kind:
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            values.integer(key.name)
            _check_choice(key, values.text(key.name))
        case ConfigType.DOUBLE:
            values.number(key.name)
        case ConfigType.BOOLEAN:
            values.flag(key.name)
        case (
            ConfigType.STRING
            | ConfigType.LIST
            | ConfigType.CLASS
            | ConfigType.PASSWORD
            | ConfigType.UNKNOWN
        ):
            words = (
                values.words(key.name) if key.kind is ConfigType.LIST else (values.text(key.name),)
            )
            for word in words:
                _check_choice(key, word)


def _check_choice(key: Key, word: str) -> None:
    if key.choices and word.lower() not in {choice.lower() for choice in key.choices}:
        raise ConfigError(key.name, word, f"expected one of {', '.join(key.choices)}")


def _check_range(key: Key, number: float, text: str) -> None:
    if key.minimum is not None and number < key.minimum:
        raise ConfigError(key.name, text, f"value must be at least {key.minimum}")
    if key.maximum is not None and number > key.maximum:
        raise ConfigError(key.name, text, f"value must be at most {key.maximum}")
