"""`--help` of every command: what it prints, that it fits a screen, and that it has examples."""

from __future__ import annotations

import shlex

import pytest

from jbodlab.cli import program
from jbodlab.cli.command import commands, named
from jbodlab.cli.program import commands_of, nouns, parser_of
from tests.jbodlab.cli.shots import Shots, wide_lines

LINES_MAX, COLUMNS_MAX = 50, 100


@pytest.mark.parametrize("noun", nouns())
def test_every_help_is_as_it_was_read(noun: str, shots: Shots) -> None:
    found = commands_of(noun)
    if noun not in found:
        shots.take(f"{noun} --help")

    shots.take(*(f"{words} --help" for words in found))

    shots.compare(f"help-{noun}")


@pytest.mark.parametrize("noun", nouns())
def test_every_help_fits_a_screen_and_has_examples(
    noun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS_MAX))
    for words, command in commands_of(noun).items():
        text = parser_of(command).format_help()

        assert len(text.splitlines()) <= LINES_MAX, words
        assert not wide_lines(text, COLUMNS_MAX), words
        assert command.examples, words


@pytest.mark.parametrize("noun", nouns())
def test_every_example_is_a_call_of_its_command(noun: str) -> None:
    for words, command in commands_of(noun).items():
        for example in command.examples:
            given = shlex.split(example)
            for redirection in (">", "<"):
                given = given[: given.index(redirection)] if redirection in given else given
            own = words.split()
            assert given[: len(own)] == own, example
            arguments = given[len(own) :]
            if command.value("rest"):
                arguments = arguments[: arguments.index("--")]
            parser_of(command).parse_all(arguments)


def test_the_help_of_all_commands_fits_a_screen(shots: Shots) -> None:
    shots.take("--help", "")

    shots.compare("help")
    assert len(program._help_of_all().splitlines()) <= LINES_MAX


@pytest.mark.parametrize("noun", nouns())
def test_a_summary_is_one_line_without_a_full_stop(noun: str) -> None:
    for words, command in commands_of(noun).items():
        assert command.help, words
        assert not command.help.endswith("."), words
        assert "\n" not in command.help, words


@pytest.mark.parametrize("words", commands())
def test_what_carries_a_command_out_is_there(words: str) -> None:
    one = commands()[words]

    first, *more = one.rows["run"][0][1].split()

    assert callable(named(first))
    for place in (*more, one.value("refused")):
        assert ":" not in place or callable(named(place)), place
