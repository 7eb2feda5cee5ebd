"""Commands that are printed work as they are pasted into the same shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.machine import programs
from lab.machine.processes import ServerUser


def script(folder: Path) -> str:
    folder.mkdir()
    path = folder / "jbodlab"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_what_is_on_the_path_is_called_by_its_name(tmp_path: Path) -> None:
    called = script(tmp_path / "bin")

    assert programs.jbodlab(called, {"PATH": str(tmp_path / "bin")}) == "jbodlab"


def test_what_is_not_or_is_another_one_is_called_by_its_path(tmp_path: Path) -> None:
    called, other = script(tmp_path / "a b"), script(tmp_path / "other")

    for path in ("/nonexistent", str(Path(other).parent)):
        assert programs.jbodlab(called, {"PATH": path}) == f"'{called}'"


def test_what_is_on_the_path_of_one_run_only_is_called_by_its_path(tmp_path: Path) -> None:
    called = script(tmp_path / "bin")

    assert programs.jbodlab(called, {"PATH": str(tmp_path / "bin"), "UV": "/bin/uv"}) == called


def test_a_module_is_called_by_the_name_of_the_command() -> None:
    assert programs.jbodlab("/x/lab/__main__.py", {"PATH": ""}) == "jbodlab"


ALL, WHOLE = "Name:\tx\nCapEff:\t000001ffffffffff\n", "         0          0 4294967295\n"


@pytest.mark.parametrize(
    ("status", "uid_map", "reason"),
    [
        (ALL, WHOLE, ""),
        ("", "", ""),
        ("CapEff:\t00000000a80425fb\n", WHOLE, ""),
        (
            "CapEff:\t0000000000000000\n",
            WHOLE,
            "without CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID",
        ),
        ("CapEff:\t000000000000007f\n", WHOLE, "without CAP_SETUID"),
        (ALL, "0 1000 1\n", "this user namespace has no such id"),
        (ALL, "0 1000 1\n1 100000 65536\n", ""),
    ],
)
def test_a_root_that_cannot_become_the_servers_user_is_told_why(
    status: str, uid_map: str, reason: str
) -> None:
    assert programs.why_not_become(ServerUser(uid=1500, gid=1500), status, uid_map) == reason
