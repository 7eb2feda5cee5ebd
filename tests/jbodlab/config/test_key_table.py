"""How the text of a setting is read."""

from __future__ import annotations

import msgspec
import pytest

from jbodlab.config import key_table
from jbodlab.config.key_table import ConfigType, Key
from jbodlab.vocabulary.errors import ConfigError

TABLE = {
    "whole": Key("whole", ConfigType.INT, "0", "an integer"),
    "part": Key("part", ConfigType.DOUBLE, "0", "a number"),
}


@pytest.mark.parametrize(
    "text", ["1_000", "\uff11\uff12", "\u0661", "1 000", "\u00a05", "0x10", "1.0", "", "+", "1e3"]
)
def test_an_integer_is_ascii_digits_with_at_most_a_sign(text: str) -> None:
    with pytest.raises(ConfigError, match="expected an integer") as raised:
        key_table.read(TABLE, {"whole": text})

    assert f"invalid value '{text}' for configuration whole" in str(raised.value)


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("-7", -7), ("+7", 7), (" 7\t", 7)])
def test_blanks_around_a_value_do_not_count(text: str, value: int) -> None:
    assert key_table.read(TABLE, {"whole": text})[0].integer("whole") == value


@pytest.mark.parametrize("text", ["1_0.5", "\uff11", "nan", "inf", "Infinity", "", ".", "1e"])
def test_a_number_is_ascii_digits_with_a_point_and_an_exponent(text: str) -> None:
    with pytest.raises(ConfigError, match="expected a number"):
        key_table.read(TABLE, {"part": text})


@pytest.mark.parametrize(("text", "value"), [("0.8", 0.8), ("5", 5.0), ("1e-2", 0.01), (".5", 0.5)])
def test_a_number_may_have_a_point_and_an_exponent(text: str, value: float) -> None:
    assert key_table.read(TABLE, {"part": text})[0].number("part") == value


def test_a_warning_about_an_unknown_key_names_the_most_similar_one() -> None:
    table = {name: Key(name, ConfigType.STRING, "", "") for name in ("log.dirs", "node.id")}

    assert key_table.unknown_text(table, "log.dir") == (
        "unknown configuration log.dir is ignored (did you mean log.dirs?)"
    )
    assert key_table.unknown_text(table, "no.such.key") == (
        "unknown configuration no.such.key is ignored"
    )


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One field of each type that a key may be read as."""

    count: int
    more_or_none: int | None
    part: float
    is_on: bool
    name: str
    name_or_none: str | None
    words: tuple[str, ...]
    given: frozenset[int]
    a_whole_key: int


def test_a_field_is_the_key_of_its_name_with_the_prefix_or_without() -> None:
    kinds = {
        "p.count": ConfigType.INT,
        "p.more.or.none": ConfigType.LONG,
        "p.part": ConfigType.DOUBLE,
        "p.is.on": ConfigType.BOOLEAN,
        "p.name": ConfigType.STRING,
        "p.name.or.none": ConfigType.STRING,
        "p.words": ConfigType.LIST,
        "a.whole.key": ConfigType.INT,
        "count": ConfigType.INT,
    }
    table = {name: Key(name, kind, None, "") for name, kind in kinds.items()}
    properties = {"p.count": "1", "p.part": "0.5", "p.is.on": "true", "p.name": " n "}
    properties |= {"p.words": "a, b", "a.whole.key": "2", "count": "3"}
    values, _ = key_table.read(table, properties)

    assert values.settings(Settings, "p.", given=frozenset({7})) == Settings(
        count=1,
        more_or_none=None,
        part=0.5,
        is_on=True,
        name="n",
        name_or_none=None,
        words=("a", "b"),
        given=frozenset({7}),
        a_whole_key=2,
    )
    with pytest.raises(ConfigError, match="a value is required"):
        key_table.Values(table, {}).settings(Settings, "p.", given=frozenset())
