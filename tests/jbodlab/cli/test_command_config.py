"""Every command that reaches a cluster takes a file with Java's properties, and reads it."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from jbodlab.cli.command import About, commands
from jbodlab.cli.program import main
from tests.jbodlab.cli.addresses import AT_ANY_ADDRESS, options

MOVE = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}'


def test_whoever_takes_an_address_takes_a_file() -> None:
    for path, command in commands().items():
        has_address = path in AT_ANY_ADDRESS
        assert has_address == ("--command-config" in options(command)), path
        assert has_address or command.about is not About.SERVERS, path
    assert len(AT_ANY_ADDRESS) > 30


@pytest.mark.parametrize("path", AT_ANY_ADDRESS)
def test_a_file_that_cannot_be_read_is_named(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A property that comes from files is read first.
    (tmp_path / "move.json").write_text(MOVE)
    (tmp_path / "found.json").write_text('{"directories": []}')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"secret\n")))
    words = shlex.split(re.split("[<>]", commands()[path].examples[0])[0])

    code = main([*words, "--bootstrap-server", "127.0.0.1:1", "--command-config", "gone.conf"])

    assert (code, "gone.conf" in capsys.readouterr().err) == (1, True)
