from __future__ import annotations

import os
import resource
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


def test_a_process_with_many_descriptors_is_answered(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_000, hard), hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        assert check.create_error(tmp_path, check.User(os.geteuid(), os.getegid())) == 0
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _is_dead(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
