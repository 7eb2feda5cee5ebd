"""Real faults on real directories, through the command line."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fault_injection import check
from tests.state_files import cluster, node, write

pytestmark = pytest.mark.process

JbodFault = Callable[..., "subprocess.CompletedProcess[str]"]
Snapshot = dict[str, tuple[int, int, bytes]]


def snapshot(directory: Path) -> Snapshot:
    """Everything that healing has to restore: inode, mode and content of each entry."""
    found = {".": entry(directory)}
    for path in sorted(directory.rglob("*")):
        found[str(path.relative_to(directory))] = entry(path)
    return found


def entry(path: Path) -> tuple[int, int, bytes]:
    found = path.stat()
    content = path.read_bytes() if path.is_file() else b""
    return found.st_ino, stat.S_IMODE(found.st_mode), content


def create_error(directory: Path) -> int:
    owner = directory.parent.stat()
    return check.create_error(directory, check.User(owner.st_uid, owner.st_gid))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("permission", errno.EACCES),
        ("read-only-bits", errno.EACCES),
        ("file-in-place", errno.ENOTDIR),
        ("deleted", errno.ENOENT),
    ],
)
def test_a_fault_takes_effect_for_the_owner_and_is_healed_exactly(
    jbod_fault: JbodFault, log_dir: Path, kind: str, expected: int
) -> None:
    before = snapshot(log_dir)

    injected = jbod_fault("inject", kind, log_dir)

    assert (injected.returncode, injected.stderr) == (0, "")
    assert create_error(log_dir) == expected
    healed = jbod_fault("heal", 1)
    assert (healed.returncode, healed.stderr) == (0, "")
    assert snapshot(log_dir) == before
    assert create_error(log_dir) == 0
    assert sorted(path.name for path in log_dir.parent.iterdir()) == ["data"]


def test_readonly_takes_the_right_to_write_from_everything_below(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    assert jbod_fault("inject", "read-only-bits", log_dir).returncode == 0

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (log_dir, *log_dir.rglob("*"))]
    assert len(modes) == 4
    assert [mode & 0o222 for mode in modes] == [0, 0, 0, 0]


def test_readonly_leaves_links_and_their_targets_alone(
    jbod_fault: JbodFault, log_dir: Path, disk: Path
) -> None:
    target = disk / "elsewhere"
    target.write_bytes(b"")
    target.chmod(0o666)
    (log_dir / "link").symlink_to(target)

    assert jbod_fault("inject", "read-only-bits", log_dir).returncode == 0

    assert stat.S_IMODE(target.stat().st_mode) == 0o666


def test_what_was_written_to_a_deleted_path_is_kept_aside(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    before = snapshot(log_dir)
    jbod_fault("inject", "deleted", log_dir)
    log_dir.mkdir()
    (log_dir / "new").write_bytes(b"written meanwhile")

    healed = jbod_fault("heal", 1)

    kept = log_dir.parent / ".data.jbod-kept-1-0"
    assert healed.returncode == 0
    assert str(kept) in healed.stdout
    assert (kept / "new").read_bytes() == b"written meanwhile"
    assert snapshot(log_dir) == before


def test_what_was_written_into_the_replacing_file_is_kept_aside(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    before = snapshot(log_dir)
    jbod_fault("inject", "file-in-place", log_dir)
    with log_dir.open("ab") as file:
        file.write(b"more")

    healed = jbod_fault("heal", "--all")

    assert healed.returncode == 0
    assert (log_dir.parent / ".data.jbod-kept-1-0").read_bytes().endswith(b"more")
    assert snapshot(log_dir) == before


def test_a_directory_inside_a_log_directory_is_moved_out_of_it(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    assert jbod_fault("inject", "deleted", log_dir / "foo-0").returncode == 0

    assert [path.name for path in log_dir.iterdir()] == ["meta.properties"]
    assert (log_dir.parent / ".foo-0.jbod-fault-1").is_dir()
    assert jbod_fault("heal", 1).returncode == 0
    assert (log_dir / "foo-0" / "00000000000000000000.log").read_bytes() == b"records"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is not stopped by permissions")
def test_a_fault_without_effect_is_reverted_and_reported(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    before = snapshot(log_dir)

    result = jbod_fault("inject", "permission", log_dir, "--user", "0")

    assert result.returncode == 1
    assert "had no effect and was reverted" in result.stderr
    assert result.stderr.count("\n") == 1
    assert snapshot(log_dir) == before
    assert jbod_fault("list").stdout == "no open faults\n"


def test_a_directory_that_the_user_cannot_write_anyway_is_refused(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    log_dir.chmod(0o555)

    result = jbod_fault("inject", "permission", log_dir)

    assert result.returncode == 1
    assert "nothing injected" in result.stderr
    assert stat.S_IMODE(log_dir.stat().st_mode) == 0o555


@pytest.mark.skipif(os.geteuid() == 0, reason="root may become any user")
def test_an_ordinary_user_cannot_prove_a_fault_as_another(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    result = jbod_fault("inject", "permission", log_dir, "--user", os.geteuid() + 1)

    assert result.returncode == 1
    assert "only root or uid" in result.stderr


def test_links_relative_paths_and_trailing_slashes_name_the_same_directory(
    jbod_fault: JbodFault, log_dir: Path, disk: Path
) -> None:
    (disk / "link").symlink_to(log_dir)

    assert jbod_fault("inject", "permission", "link/", cwd=disk).returncode == 0

    refused = jbod_fault("inject", "read-only-bits", "../" + disk.name + "/data/", cwd=disk)
    assert refused.returncode == 1
    assert "already has an open fault: 1" in refused.stderr
    assert str(log_dir) in jbod_fault("list").stdout


def test_a_directory_around_an_open_fault_is_refused(jbod_fault: JbodFault, log_dir: Path) -> None:
    assert jbod_fault("inject", "read-only-bits", log_dir / "foo-0").returncode == 0

    result = jbod_fault("inject", "deleted", log_dir)

    assert result.returncode == 1
    assert "overlap" in result.stderr


@pytest.mark.parametrize("kind", ["permission", "deleted"])
def test_the_root_of_the_file_system_is_never_broken(jbod_fault: JbodFault, kind: str) -> None:
    result = jbod_fault("inject", kind, "/")

    assert (result.returncode, result.stdout) == (1, "")
    assert "never broken" in result.stderr


def test_what_is_no_directory_is_refused(jbod_fault: JbodFault, log_dir: Path) -> None:
    file = jbod_fault("inject", "permission", log_dir / "meta.properties")
    missing = jbod_fault("inject", "permission", log_dir / "missing")

    assert (file.returncode, missing.returncode) == (1, 1)
    assert "is not a directory" in file.stderr
    assert "does not exist" in missing.stderr


def test_an_empty_path_is_not_the_folder_one_stands_in(jbod_fault: JbodFault, disk: Path) -> None:
    before = snapshot(disk)

    refused = jbod_fault("inject", "permission", "", cwd=disk)

    assert (refused.returncode, refused.stderr) == (1, "jbod-fault: the path is empty\n")
    assert snapshot(disk) == before


def test_a_directory_that_holds_the_tool_itself_is_refused(jbod_fault: JbodFault) -> None:
    package = Path(check.__file__).parent

    refused = jbod_fault("inject", "permission", package)

    assert (refused.returncode, refused.stderr) == (
        1,
        f"jbod-fault: {package} contains the program that has to heal it\n",
    )


def test_a_directory_that_holds_the_journal_is_refused(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    result = jbod_fault(
        "inject", "permission", log_dir, "--journal", log_dir / "j" / "faults.jsonl"
    )

    assert result.returncode == 1
    assert "the journal" in result.stderr


def test_a_mount_point_is_neither_moved_nor_replaced(jbod_fault: JbodFault, disk: Path) -> None:
    mounted = disk / "mounted"
    mounted.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "mode=777", "test", str(mounted)],
        capture_output=True,
        check=False,
    )
    if mount.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        result = jbod_fault("inject", "deleted", mounted)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)

    assert result.returncode == 1
    assert "mount point" in result.stderr
    assert result.stderr.count("\n") == 1


def test_healing_an_unknown_or_healed_fault_fails_with_one_line(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    jbod_fault("inject", "permission", log_dir)
    jbod_fault("heal", 1)

    again, unknown = jbod_fault("heal", 1), jbod_fault("heal", 7)

    assert (again.returncode, unknown.returncode) == (1, 1)
    assert again.stderr == "jbod-fault: fault 1 is not open: it was healed already\n"
    assert unknown.stderr == "jbod-fault: no fault 7 in the journal\n"


def test_heal_under_a_folder_leaves_other_faults_open(
    jbod_fault: JbodFault, log_dir: Path, disk: Path
) -> None:
    other = disk / "other"
    other.mkdir()
    if os.geteuid() == 0:
        os.chown(other, log_dir.stat().st_uid, log_dir.stat().st_gid)
    jbod_fault("inject", "permission", log_dir)
    jbod_fault("inject", "permission", other)

    assert jbod_fault("heal", "--under", log_dir).returncode == 0

    listed = jbod_fault("list").stdout
    assert str(other) in listed
    assert str(log_dir) not in listed


def test_a_fault_whose_directory_is_gone_is_closed_with_a_word_about_it(
    jbod_fault: JbodFault, log_dir: Path
) -> None:
    jbod_fault("inject", "permission", log_dir)
    log_dir.rename(log_dir.with_name("removed"))

    result = jbod_fault("heal", 1)

    assert result.returncode == 0
    assert "was removed or replaced" in result.stdout
    assert jbod_fault("list").stdout == "no open faults\n"


def test_every_step_is_in_the_journal_with_both_clocks(
    jbod_fault: JbodFault, log_dir: Path, state_dir: Path
) -> None:
    jbod_fault("inject", "permission", log_dir)
    jbod_fault("heal", 1)

    lines = (state_dir / "faults.jsonl").read_text().splitlines()

    entries = [json.loads(line) for line in lines]
    assert [entry["event"] for entry in entries] == [
        "begin",
        "injected",
        "proved",
        "healing",
        "healed",
    ]
    assert {entry["id"] for entry in entries} == {1}
    clocks = [entry["monotonic_ns"] for entry in entries]
    assert clocks == sorted(clocks)
    assert all(entry["wall"].endswith("+00:00") for entry in entries)
    assert entries[0]["path"] == str(log_dir)
    assert entries[0]["undo"]["modes"] == {".": 0o750}


def test_a_directory_is_named_by_broker_and_number_or_path(
    jbod_fault: JbodFault, log_dir: Path, state_dir: Path
) -> None:
    broker = node(node_id=2, log_dirs=("/not/this", str(log_dir)))
    write(state_dir, cluster("default", node("controller", 100), broker))

    by_number = jbod_fault("inject", "permission", "--broker", 2, "--dir", 2)
    jbod_fault("heal", "--all")
    by_path = jbod_fault("inject", "permission", "--broker", 2, "--dir", log_dir)
    jbod_fault("heal", "--all")
    too_high = jbod_fault("inject", "permission", "--broker", 2, "--dir", 3)
    no_broker = jbod_fault("inject", "permission", "--broker", 9, "--dir", 1)
    no_cluster = jbod_fault("inject", "permission", "--broker", 2, "--dir", 1, "--name", "x")

    assert (by_number.returncode, by_path.returncode) == (0, 0)
    assert str(log_dir) in by_number.stdout
    assert "log directories 1 to 2, got 3" in too_high.stderr
    assert "unknown broker 9: cluster default has 2" in no_broker.stderr
    assert "cluster x is not up" in no_cluster.stderr
    assert {too_high.returncode, no_broker.returncode, no_cluster.returncode} == {1}


def test_the_command_is_a_program(state_dir: Path, log_dir: Path) -> None:
    done = [
        subprocess.run(
            [sys.executable, "-m", "fault_injection", *words],
            env={**os.environ, "JBODLAB_STATE_DIR": str(state_dir)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for words in (["inject", "deleted", str(log_dir)], ["heal", "--all"], ["nonsense"])
    ]

    assert [each.returncode for each in done] == [0, 0, 1]
    assert log_dir.is_dir()
