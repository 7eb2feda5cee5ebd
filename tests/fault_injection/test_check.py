from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fault_injection import check
from lab.machine.waiting import wait_for

pytestmark = pytest.mark.process


def test_who_hung_ends_with_the_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, healed = tmp_path / "pid", tmp_path / "healed"

    def hang(_file: Path, _size_bytes: int) -> None:
        noted.write_text(str(os.getpid()))
        while not healed.exists():
            time.sleep(0.01)

    monkeypatch.setattr(check, "_try_create", hang)

    try:
        assert check.hangs(tmp_path, check.User(os.geteuid(), os.getegid()), 0.5)
    finally:
        (tmp_path / f"process {os.getpid()} goes on").touch()
    pid = int(wait_for("the child is there", lambda: noted.exists() and noted.read_text()))
    healed.touch()

    wait_for("the child ends", lambda: _is_dead(pid))
    assert [each.name for each in tmp_path.glob("*goes on")] == [f"process {os.getpid()} goes on"]


def _is_dead(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
