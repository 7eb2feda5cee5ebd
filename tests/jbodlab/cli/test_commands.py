"""The names behind the commands."""

from __future__ import annotations

import sys

import pytest

from jbodlab.cli import commands
from jbodlab.cli.command_line import INTERRUPTED


def test_a_command_that_is_interrupted_while_it_is_imported_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "import_module", interrupted)
    monkeypatch.setattr(sys, "argv", ["/somewhere/jbod-broker", "-c", "x"])

    with pytest.raises(SystemExit) as ended:
        commands.broker  # noqa: B018 - as the script of a wheel does

    assert ended.value.code == INTERRUPTED
    assert capsys.readouterr().err == "jbod-broker: interrupted\n"
