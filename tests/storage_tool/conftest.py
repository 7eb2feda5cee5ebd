"""A node's property file, and the tool run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from storage_tool.__main__ import main
from tests.jbodlab.storage.conftest import make_log as make_log


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def jbod_storage(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def run(*arguments: object) -> Result:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def node_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a broker's property file; a key with None is left out."""

    def write(**changes: str | None) -> Path:
        values: dict[str, str | None] = {
            "process.roles": "broker",
            "node.id": "8",
            "controller.quorum.voters": "100@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://localhost:9092",
            "log.dirs": f"{tmp_path}/d1,{tmp_path}/d2",
            "metadata.log.dir": f"{tmp_path}/meta",
        }
        values.update({key.replace("_", "."): value for key, value in changes.items()})
        file = tmp_path / "server.properties"
        file.write_text(
            "".join(f"{key}={value}\n" for key, value in values.items() if value is not None)
        )
        return file

    return write
