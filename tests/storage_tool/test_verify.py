"""`jbodlab storage verify` on the directories of a broker that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jbodlab.cli.program import main
from jbodlab.record_batch.record_batch import build_batch
from jbodlab.storage.directory import meta_properties, names
from jbodlab.storage.directory.directory_lock import DirectoryLock
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.directory_id import LOST
from jbodlab.vocabulary.kafka_uuid import random_uuid
from storage_tool.verify import is_locked


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A directory with two replicas of two segments each, and entries that are none."""
    fs = PosixFileSystem()
    meta = MetaProperties(
        version=1, cluster_id="c", node_id=3, directory_id=random_uuid(lambda n: b"\x42" * n)
    )
    meta_properties.write(fs, tmp_path, meta)
    assert meta.directory_id != LOST
    others = ("orders-2.0123456789abcdef0123456789abcdef-stray", names.METADATA_DIR_NAME)
    for name in ("orders-0", "orders-1", "lost+found", *others):
        folder = tmp_path / name
        folder.mkdir()
        for base_offset in (0, 2):
            batch = build_batch([(None, b"v")] * 2, base_offset=base_offset, timestamp_ms=1)
            (folder / names.log_file(base_offset)).write_bytes(batch)
            (folder / names.index_file(base_offset)).write_bytes(b"")
            (folder / names.time_index_file(base_offset)).write_bytes(b"")
    return tmp_path


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["storage", "verify", "--rate", "1000", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def rot(log_dir: Path, replica: str = "orders-1") -> None:
    path = log_dir / replica / names.log_file(0)
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_sound_replicas_are_counted_and_other_entries_left_out(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(capsys, str(log_dir)) == (
        0,
        f"{log_dir}: 2 replicas, 4 segments, 0.0 MB read, damaged replicas: 0\n",
        "",
    )


def test_damage_is_named_with_its_place_and_offsets_and_the_exit_code_is_1(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rot(log_dir)

    code, said, _ = verify(capsys, str(log_dir))

    assert code == 1
    assert said.splitlines() == [
        f"{log_dir}/orders-1/{0:020d}.log at byte 0: wrong CRC; offsets 0 to 1",
        f"{log_dir}: 2 replicas, 4 segments, 0.0 MB read, damaged replicas: 1",
    ]


def test_damage_as_json(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rot(log_dir)

    code, said, _ = verify(capsys, str(log_dir), "--output", "json")

    (directory,) = json.loads(said)["directories"]
    assert code == 1
    assert (directory["path"], directory["in_use"]) == (str(log_dir), False)
    assert (directory["replicas"], directory["segments"]) == (2, 4)
    assert directory["damaged"] == [
        {
            "topic": "orders",
            "partition": 1,
            "folder": "orders-1",
            "damage": [
                {
                    "file": f"{0:020d}.log",
                    "base_offset": 0,
                    "position": 0,
                    "problem": "wrong CRC",
                    "first_offset": 0,
                    "last_offset": 1,
                    "in_index": False,
                }
            ],
        }
    ]


def test_topics_may_be_chosen(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rot(log_dir)

    code, said, _ = verify(capsys, str(log_dir), "--topic", "others")

    assert (code, said.split(": ")[1].split(",")[0]) == (0, "0 replicas")


@pytest.mark.parametrize("rate", ["0", "-1", "fast", "nan", "inf"])
def test_rate_is_a_number_above_0(
    log_dir: Path, capsys: pytest.CaptureFixture[str], rate: str
) -> None:
    assert main(["storage", "verify", str(log_dir), f"--rate={rate}"]) == 2
    assert f"--rate: expected MB/s above 0, got '{rate}'" in capsys.readouterr().err


def test_what_is_no_log_directory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, complained = verify(capsys, str(tmp_path))

    assert code == 1
    assert (
        complained
        == f"jbodlab: {tmp_path}/meta.properties cannot be read: No such file or directory\n"
    )


def test_nothing_is_locked_where_no_lock_is_or_nobody_holds_it(log_dir: Path) -> None:
    assert not is_locked(log_dir)
    DirectoryLock(PosixFileSystem(), log_dir).close()
    assert (log_dir / names.LOCK_FILE).exists()
    assert not is_locked(log_dir)
