"""A node's property file, and the tool run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from storage_tool.__main__ import main
from tests.jbodlab.storage.conftest import make_log as make_log

CLUSTER_ID = "41QSStLtR3qOekbX4ZlbHA"


class Result(NamedTuple):
    code: int
    out: str
    err: str


class StorageTool:
    """Runs `jbod-storage` in this process, and writes the property file of a node."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Result:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)

    def format(self, *arguments: object, config: Path | None = None) -> Result:
        return self("format", "-t", CLUSTER_ID, "-c", config or self.node_file(), *arguments)

    def node_file(self, **changes: str | None) -> Path:
        """Write a broker's property file; a key with None is left out."""
        values: dict[str, str | None] = {
            "process.roles": "broker",
            "node.id": "8",
            "controller.quorum.voters": "100@localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://localhost:9092",
            "log.dirs": f"{self.folder}/d1,{self.folder}/d2",
            "metadata.log.dir": f"{self.folder}/meta",
            **changes,
        }
        file = self.folder / "server.properties"
        file.write_text(
            "".join(f"{key}={value}\n" for key, value in values.items() if value is not None)
        )
        return file


@pytest.fixture
def tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> StorageTool:
    return StorageTool(tmp_path, capsys)
