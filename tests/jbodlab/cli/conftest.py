from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.cli import lab_state
from tests.jbodlab.cli.shots import Shots


@pytest.fixture
def state_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory without clusters."""
    folder = tmp_path / "state"
    monkeypatch.setenv(lab_state.STATE_DIR_VARIABLE, str(folder))
    return folder


@pytest.fixture
def shots(
    state_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shots:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("lab.machine.interrupts.Interrupts.install", lambda _: None)
    return Shots(capsys, {str(state_dir): "STATE", str(tmp_path): "TMP"})
