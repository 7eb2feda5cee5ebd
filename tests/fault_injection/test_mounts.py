"""The table of mounts of a machine on which others have mounted what they like."""

from __future__ import annotations

import os
from pathlib import Path

from fault_injection.mounts import all_mounts

TABLE = b"""\
23 29 0:21 / /proc rw,nosuid shared:13 - proc proc rw
31 29 8:1 /sub\\040folder /mnt/a\\040b\\134c\\011d\\012e\\043f rw - ext4 /dev/sda1 rw,data=no
32 29 0:40 / /mnt/M\xfcller\x85 rw shared:1 master:2 - tmpfs jbod\xe9 rw,size=1m
33 29 0:41 / /mnt/\xd0\xa9\x0c rw - fuse.jbodlab /run/\xd0\xa9.rules rw
"""


def test_names_of_mounts_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_bytes(TABLE)

    proc, disk, latin, cyrillic = all_mounts(tmp_path)

    assert (proc.point, proc.kind, proc.source, proc.root) == (
        Path("/proc"),
        "proc",
        "proc",
        Path("/"),
    )
    assert os.fsencode(disk.point) == b"/mnt/a b\\c\td\ne#f"
    assert (disk.root, disk.kind, disk.options) == (
        Path("/sub folder"),
        "ext4",
        "rw,data=no",
    )
    assert os.fsencode(latin.point) == b"/mnt/M\xfcller\x85"
    assert os.fsencode(latin.source) == b"jbod\xe9"
    assert os.fsencode(cyrillic.point) == b"/mnt/\xd0\xa9\x0c"
    assert os.fsencode(cyrillic.source) == b"/run/\xd0\xa9.rules"


def test_the_table_of_this_process_can_be_read() -> None:
    assert Path("/proc") in {mount.point for mount in all_mounts()}
