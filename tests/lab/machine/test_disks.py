"""Disks are mounts where that is possible, and leave nothing mounted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.machine import disks
from lab.machine.interrupts import Interrupts
from lab.machine.processes import ServerUser

OWN_USER = ServerUser(uid=os.geteuid(), gid=os.getegid())


@pytest.mark.process
def test_every_directory_is_made_and_all_mounts_are_undone(tmp_path: Path) -> None:
    wanted = [tmp_path / f"disk {number}" / "data" for number in (1, 2)]

    why_plain = disks.make(wanted, OWN_USER, 16, Interrupts())
    mounted = disks.mounts_below(tmp_path)
    left = disks.unmount_below(tmp_path)

    assert left == disks.mounts_below(tmp_path) == []
    if why_plain:
        assert mounted == []
        assert all(path.is_dir() for path in wanted)
    else:
        assert sorted(mounted) == [path.parent for path in wanted]
        assert not any(path.exists() for path in wanted)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may mount")
def test_an_ordinary_user_gets_plain_folders_and_is_told_why(tmp_path: Path) -> None:
    assert (
        disks.make([tmp_path / "d" / "data"], OWN_USER, 16, Interrupts()) == "only root may mount"
    )
    assert (tmp_path / "d" / "data").is_dir()


@pytest.mark.process
def test_an_open_file_does_not_keep_a_mount(tmp_path: Path) -> None:
    data = tmp_path / "disk" / "data"
    if disks.make([data], OWN_USER, 16, Interrupts()):
        pytest.skip("mounting is not allowed here")
    with (data / "open").open("w") as file:
        assert disks.unmount_below(tmp_path) == []
        file.write("still open")

    assert list((tmp_path / "disk").iterdir()) == []
