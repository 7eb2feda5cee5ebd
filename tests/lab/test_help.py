"""What `--help` prints, and what a shell completes by."""

from __future__ import annotations

import argparse
import subprocess

import pytest

from lab import __main__ as program
from lab import commands
from lab.commands import completion

LINES, COLUMNS = 24, 80
PRINTS_NO_DATA = {"completion"}
"""What it prints is for a shell."""


def choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    )
    return found.choices


PARSERS = {"": program._parser(), **choices(program._parser())}


@pytest.mark.parametrize("name", PARSERS)
def test_help_fits_a_screen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))

    lines = PARSERS[name].format_help().splitlines()

    assert len(lines) <= LINES
    assert all(len(line) <= COLUMNS for line in lines)


@pytest.mark.parametrize("name", sorted(set(PARSERS) - {""} - PRINTS_NO_DATA))
def test_every_command_prints_json_if_asked(name: str) -> None:
    words = [word for action in PARSERS[name]._actions for word in action.option_strings]

    assert "--json" in words


def test_every_command_of_the_table_is_known() -> None:
    assert set(commands.TABLE) <= set(PARSERS)


@pytest.mark.process
def test_a_shell_completes_commands_options_and_kinds() -> None:
    script = completion.script(program._parser())

    def completed(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in ("jbodlab", *words))
        asked = f"{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _jbodlab\n"
        told = subprocess.run(
            ["bash", "-c", asked + 'printf "%s\\n" "${COMPREPLY[@]}"'],
            capture_output=True,
            text=True,
            check=True,
        )
        return told.stdout.split()

    assert completed("u") == ["up", "ui"]
    assert completed("ui", "--al") == ["--allow-faults"]
    assert completed("inject", "power") == ["power-loss"]


@pytest.mark.parametrize("words", [["up"], ["demo"], ["list"], ["rehearse", "--list"], ["ui"]])
def test_what_is_for_linux_says_so_in_one_line_elsewhere(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("lab.interrupts.Interrupts.install", lambda _: None)

    assert program.main(words) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("jbodlab: clusters of jbodlab need Linux, and this is darwin")
    assert told.err.count("\n") == 1
