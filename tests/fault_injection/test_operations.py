"""Real faults on real directories, through the command line."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fault_injection import check

pytestmark = pytest.mark.process

Jbodlab = Callable[..., "subprocess.CompletedProcess[str]"]
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
        ("replaced", 0),
    ],
)
def test_a_fault_takes_effect_for_the_owner_and_is_healed_exactly(
    jbodlab: Jbodlab, log_dir: Path, kind: str, expected: int
) -> None:
    before = snapshot(log_dir)

    injected = jbodlab("inject", kind, "--path", log_dir)

    assert (injected.returncode, injected.stderr) == (0, "")
    assert create_error(log_dir) == expected
    healed = jbodlab("heal", 1)
    assert (healed.returncode, healed.stderr) == (0, "")
    assert snapshot(log_dir) == before
    assert create_error(log_dir) == 0
    assert sorted(path.name for path in log_dir.parent.iterdir()) == ["data"]


def test_readonly_takes_the_right_to_write_from_everything_below(
    jbodlab: Jbodlab, log_dir: Path
) -> None:
    assert jbodlab("inject", "read-only-bits", "--path", log_dir).returncode == 0

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (log_dir, *log_dir.rglob("*"))]
    assert len(modes) == 4
    assert [mode & 0o222 for mode in modes] == [0, 0, 0, 0]


def test_readonly_leaves_links_and_their_targets_alone(
    jbodlab: Jbodlab, log_dir: Path, disk: Path
) -> None:
    target = disk / "elsewhere"
    target.write_bytes(b"")
    target.chmod(0o666)
    (log_dir / "link").symlink_to(target)

    assert jbodlab("inject", "read-only-bits", "--path", log_dir).returncode == 0

    assert stat.S_IMODE(target.stat().st_mode) == 0o666


def test_what_was_written_to_a_deleted_path_is_kept_aside(jbodlab: Jbodlab, log_dir: Path) -> None:
    before = snapshot(log_dir)
    jbodlab("inject", "deleted", "--path", log_dir)
    log_dir.mkdir()
    (log_dir / "new").write_bytes(b"written meanwhile")

    healed = jbodlab("heal", 1)

    kept = log_dir.parent / ".data.jbod-kept-1-0"
    assert healed.returncode == 0
    assert str(kept) in healed.stdout
    assert (kept / "new").read_bytes() == b"written meanwhile"
    assert snapshot(log_dir) == before


def test_what_was_written_into_the_replacing_file_is_kept_aside(
    jbodlab: Jbodlab, log_dir: Path
) -> None:
    before = snapshot(log_dir)
    jbodlab("inject", "file-in-place", "--path", log_dir)
    with log_dir.open("ab") as file:
        file.write(b"more")

    healed = jbodlab("heal", "--all")

    assert healed.returncode == 0
    assert (log_dir.parent / ".data.jbod-kept-1-0").read_bytes().endswith(b"more")
    assert snapshot(log_dir) == before


def test_a_directory_inside_a_log_directory_is_moved_out_of_it(
    jbodlab: Jbodlab, log_dir: Path
) -> None:
    assert jbodlab("inject", "deleted", "--path", log_dir / "foo-0").returncode == 0

    assert [path.name for path in log_dir.iterdir()] == ["meta.properties"]
    assert (log_dir.parent / ".foo-0.jbod-fault-1").is_dir()
    assert jbodlab("heal", 1).returncode == 0
    assert (log_dir / "foo-0" / "00000000000000000000.log").read_bytes() == b"records"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is not stopped by permissions")
def test_a_fault_without_effect_is_reverted_and_reported(jbodlab: Jbodlab, log_dir: Path) -> None:
    before = snapshot(log_dir)

    result = jbodlab("inject", "permission", "--path", log_dir, "--user", "0")

    assert result.returncode == 1
    assert "had no effect and was reverted" in result.stderr
    assert result.stderr.count("\n") == 1
    assert snapshot(log_dir) == before
    assert jbodlab("faults", "list").stdout == "no open faults\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may become any user")
def test_an_ordinary_user_cannot_prove_a_fault_as_another(jbodlab: Jbodlab, log_dir: Path) -> None:
    result = jbodlab("inject", "permission", "--path", log_dir, "--user", os.geteuid() + 1)

    assert result.returncode == 1
    assert "only root or uid" in result.stderr


def test_links_relative_paths_and_trailing_slashes_name_the_same_directory(
    jbodlab: Jbodlab, log_dir: Path, disk: Path
) -> None:
    (disk / "link").symlink_to(log_dir)

    assert jbodlab("inject", "permission", "--path", "link/", cwd=disk).returncode == 0

    refused = jbodlab("inject", "read-only-bits", "--path", "../" + disk.name + "/data/", cwd=disk)
    assert refused.returncode == 1
    assert "already has an open fault: 1" in refused.stderr
    assert str(log_dir) in jbodlab("faults", "list").stdout


def test_a_directory_around_an_open_fault_is_refused(jbodlab: Jbodlab, log_dir: Path) -> None:
    assert jbodlab("inject", "read-only-bits", "--path", log_dir / "foo-0").returncode == 0

    result = jbodlab("inject", "deleted", "--path", log_dir)

    assert result.returncode == 1
    assert "overlap" in result.stderr


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "is never broken"),
        ("", "the path is empty"),
        ("LOG_DIR/meta.properties", "is not a directory"),
        ("LOG_DIR/missing", "does not exist"),
        ("LOG_DIR/closed", "nothing injected"),
        ("LOG_DIR", "the journal"),
        (str(Path(check.__file__).parent), "contains the program that has to heal it"),
    ],
)
def test_what_cannot_be_broken_is_refused_and_nothing_changes(
    jbodlab: Jbodlab, log_dir: Path, monkeypatch: pytest.MonkeyPatch, path: str, reason: str
) -> None:
    (log_dir / "closed").mkdir(mode=0o555)
    os.chown(log_dir / "closed", log_dir.stat().st_uid, log_dir.stat().st_gid)
    monkeypatch.setenv("JBODLAB_STATE_DIR", str(log_dir.with_name("state")))
    if path == "LOG_DIR":
        monkeypatch.setenv("JBODLAB_STATE_DIR", str(log_dir / "j"))
    before = snapshot(log_dir)

    for kind in ("permission", "deleted"):
        refused = jbodlab(
            "inject", kind, "--path", path.replace("LOG_DIR", str(log_dir)), cwd=log_dir
        )
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("jbodlab: ")
        assert reason in refused.stderr
        assert refused.stderr.count("\n") == 1

    assert {name: seen for name, seen in snapshot(log_dir).items() if name in before} == before


def test_a_mount_point_is_neither_moved_nor_replaced(jbodlab: Jbodlab, disk: Path) -> None:
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
        result = jbodlab("inject", "deleted", "--path", mounted)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)

    assert result.returncode == 1
    assert "mount point" in result.stderr
    assert result.stderr.count("\n") == 1


def test_heal_under_a_folder_leaves_other_faults_open(
    jbodlab: Jbodlab, log_dir: Path, disk: Path
) -> None:
    other = disk / "other"
    other.mkdir()
    if os.geteuid() == 0:
        os.chown(other, log_dir.stat().st_uid, log_dir.stat().st_gid)
    jbodlab("inject", "permission", "--path", log_dir)
    jbodlab("inject", "permission", "--path", other)

    assert jbodlab("heal", "--path", log_dir).returncode == 0

    listed = jbodlab("faults", "list").stdout
    assert str(other) in listed
    assert str(log_dir) not in listed


def test_a_fault_whose_directory_is_gone_is_closed_with_a_word_about_it(
    jbodlab: Jbodlab, log_dir: Path
) -> None:
    jbodlab("inject", "permission", "--path", log_dir)
    log_dir.rename(log_dir.with_name("removed"))

    result = jbodlab("heal", 1)

    assert result.returncode == 0
    assert "was removed or replaced" in result.stdout
    assert jbodlab("faults", "list").stdout == "no open faults\n"


def test_every_step_is_in_the_journal_with_both_clocks(
    jbodlab: Jbodlab, log_dir: Path, state_dir: Path
) -> None:
    jbodlab("inject", "permission", "--path", log_dir)
    jbodlab("heal", 1)

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


def test_what_a_fault_is_about_is_named_once(jbodlab: Jbodlab, log_dir: Path) -> None:
    neither = jbodlab("inject", "deleted")
    both = jbodlab("inject", "deleted", "broker-1/1", "--path", log_dir)
    other = jbodlab("inject", "deleted", "--path", log_dir, "--cluster", "x")
    broker = jbodlab("inject", "kill", "--path", log_dir)

    assert {neither.returncode, both.returncode, other.returncode} == {2}
    assert "expected TARGET, such as broker-1/2, or --path DIR" in neither.stderr
    assert "expected TARGET, such as broker-1/2, or --path DIR" in both.stderr
    assert "--cluster and --path exclude each other" in other.stderr
    assert broker.returncode == 1
    assert "kill breaks a broker" in broker.stderr
    assert log_dir.is_dir()


def test_whether_a_fault_can_be_made_is_told_and_nothing_is_changed(
    jbodlab: Jbodlab, log_dir: Path
) -> None:
    before = snapshot(log_dir)

    possible = jbodlab("faults", "check", "deleted", "--path", log_dir)

    assert possible.stdout == f"deleted can be injected into {log_dir} by files\n"
    assert jbodlab("faults", "check", "swapped", "--path", log_dir).returncode == 1
    assert snapshot(log_dir) == before
