"""A cluster comes up and goes down on machines whose folders, mounts and users have odd names."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fault_injection import mounts
from lab.machine import programs
from lab.machine.folders import make_folder, remove_folder

pytestmark = pytest.mark.cluster

ODD = "Щи 状态 ü#%"


@pytest.fixture
def folder() -> Iterator[Path]:
    found = make_folder()
    yield found
    remove_folder(found)


def run(
    state: Path, *words: str, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command, with the variables of the machine or with others."""
    return subprocess.run(
        [*programs.tool(), *words],
        env={
            **(os.environ if variables is None else variables),
            "JBODLAB_STATE_DIR": str(state),
        },
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
        timeout=120,
    )


@contextlib.contextmanager
def mounted(point: bytes) -> Iterator[None]:
    """Mount something at a place whose name is no text."""
    os.mkdir(point)  # noqa: PTH102 - a name of bytes
    subprocess.run([b"mount", b"-t", b"tmpfs", b"x", point], check=True)
    try:
        yield
    finally:
        subprocess.run([b"umount", point], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_names_that_are_not_latin_or_no_text_at_all_keep_no_cluster_from_ending(
    folder: Path,
) -> None:
    state = folder / ODD
    with mounted(os.fsencode(folder) + b"/M\xfcller"):
        up = run(state, "up", "--brokers", "1", "--disks", "2")
        broken = run(state, "inject", "eio", "broker-1/2", "--for", "20s")
        down = run(state, "down")

        assert (up.returncode, broken.returncode, down.returncode) == (0, 0, 0), (up, broken, down)
        assert [one for one in mounts.all_mounts() if state in one.point.parents] == []
        assert sorted(path.name for path in (state / "clusters").iterdir()) == ["default.lock"]


def test_a_terminal_of_ascii_costs_no_command(folder: Path) -> None:
    plain = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0"}
    plain |= {"PYTHONCOERCECLOCALE": "0", "HOME": "/nonexistent"}

    for words in (["up", "--brokers", "1", "--disks", "1"], ["status"], ["list"], ["down"]):
        done = run(folder / "state", *words, variables=plain)
        assert done.returncode == 0, done
    odd = run(folder / ODD, "up", variables=plain)
    assert odd.returncode == 1
    assert odd.stderr.endswith("in this locale: set LC_ALL=C.UTF-8\n")


def test_output_that_a_terminal_cannot_show_is_escaped(folder: Path) -> None:
    plain = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0"}
    plain["PYTHONCOERCECLOCALE"] = "0"

    for words in (["status", "--cluster", "schön"], ["replay", "--input", "/tmp/状态"], ["ü"]):
        done = run(folder / "state", *words, variables=plain)
        assert done.returncode in (1, 2), done
        assert "Traceback" not in done.stderr
