"""How the text of a setting is read."""

from __future__ import annotations

import pytest

from jbodlab.config import key_table
from jbodlab.config.key_table import Key, Kind
from jbodlab.vocabulary.errors import ConfigError

TABLE = {
    "whole": Key("whole", Kind.INT, "0", "an integer"),
    "part": Key("part", Kind.DOUBLE, "0", "a number"),
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
    table = {name: Key(name, Kind.STRING, "", "") for name in ("log.dirs", "node.id")}

    assert key_table.unknown_text(table, "log.dir") == (
        "unknown configuration log.dir is ignored (did you mean log.dirs?)"
    )
    assert key_table.unknown_text(table, "no.such.key") == (
        "unknown configuration no.such.key is ignored"
    )
