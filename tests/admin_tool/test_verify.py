"""jbod-log-dirs verify on the directories of a broker that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admin_tool import log_dirs
from admin_tool.log_dir_actions.mending import why_not
from admin_tool.log_dir_actions.verify import Pace, is_locked
from admin_tool.requests.topics import PartitionDescription
from jbodlab.directory_id import LOST
from jbodlab.kafka_uuid import random_uuid
from jbodlab.log import meta_properties, names
from jbodlab.log.directory_lock import DirectoryLock
from jbodlab.log.meta_properties import MetaProperties
from jbodlab.log.posix_filesystem import PosixFileSystem
from jbodlab.protocol.record_batch import build_batch


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
    code = log_dirs.main(["verify", "--rate", "1000", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def rot(log_dir: Path, replica: str = "orders-1") -> None:
    path = log_dir / replica / names.log_file(0)
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_sound_replicas_are_counted_and_other_entries_left_out(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(capsys, "--dir", str(log_dir)) == (
        0,
        f"{log_dir}: 2 replicas, 4 segments, 0.0 MB read, 0 replicas damaged\n",
        "",
    )


def test_damage_is_named_with_its_place_and_offsets_and_the_exit_code_is_1(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rot(log_dir)

    code, said, _ = verify(capsys, "--dir", str(log_dir))

    assert code == 1
    assert said.splitlines() == [
        f"{log_dir}/orders-1/{0:020d}.log at byte 0: wrong CRC; offsets 0 to 1",
        f"{log_dir}: 2 replicas, 4 segments, 0.0 MB read, 1 replicas damaged",
    ]


def test_damage_as_json(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rot(log_dir)

    code, said, _ = verify(capsys, "--dir", str(log_dir), "--json")

    (directory,) = json.loads(said)["directories"]
    assert code == 1
    assert (directory["path"], directory["inUse"]) == (str(log_dir), False)
    assert (directory["replicas"], directory["segments"]) == (2, 4)
    assert directory["damaged"] == [
        {
            "topic": "orders",
            "partition": 1,
            "folder": f"{log_dir}/orders-1",
            "mended": False,
            "refusal": None,
            "damage": [
                {
                    "file": f"{0:020d}.log",
                    "position": 0,
                    "problem": "wrong CRC",
                    "firstOffset": 0,
                    "lastOffset": 1,
                    "index": False,
                }
            ],
        }
    ]


def test_topics_may_be_chosen(log_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rot(log_dir)

    code, said, _ = verify(capsys, "--dir", str(log_dir), "--topic-list", "others")

    assert (code, said.split(": ")[1].split(",")[0]) == (0, "0 replicas")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "0"], "Found multiple arguments for option rate"),
        (["--mend"], 'Missing required argument "[bootstrap-server]"'),
        (["--broker", "1"], 'Option "[broker]" can\'t be used with option "[verify]"'),
    ],
)
def test_wrong_usage_is_refused(
    log_dir: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, said, complained = verify(capsys, "--dir", str(log_dir), *arguments)

    assert (code, said) == (1, "")
    assert complained.startswith(message)


@pytest.mark.parametrize("rate", ["0", "-1", "fast", "nan", "inf"])
def test_rate_is_a_number_above_0(
    log_dir: Path, capsys: pytest.CaptureFixture[str], rate: str
) -> None:
    assert log_dirs.main(["verify", "--dir", str(log_dir), "--rate", rate]) == 1
    assert f"Cannot parse argument '{rate}' of option rate" in capsys.readouterr().err


def test_what_is_no_log_directory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, complained = verify(capsys, "--dir", str(tmp_path))

    assert code == 1
    assert complained == f"{tmp_path}/meta.properties cannot be read: No such file or directory\n"


def test_nothing_is_locked_where_no_lock_is_or_nobody_holds_it(log_dir: Path) -> None:
    assert not is_locked(log_dir)
    DirectoryLock(PosixFileSystem(), log_dir).close()
    assert (log_dir / names.LOCK_FILE).exists()
    assert not is_locked(log_dir)


def test_reading_keeps_to_the_rate() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(100.0, lambda: now[0], sleep)
    for _ in range(3):
        pace(50)
        # The disk takes its time as well.
        now[0] += 0.2
    assert now[0] == pytest.approx(1.7)
    # What was not read for long is not made up for.
    now[0] += 10
    for _ in range(2):
        pace(50)
    assert slept[-1] == pytest.approx(0.5)


def partition(leader: int | None, isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(index=0, leader=leader, replicas=(1, 2, 3), isr=isr)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (partition(1, (1, 2)), None),
        (None, "knows no such replica"),
        (PartitionDescription(index=0, leader=1, replicas=(1, 2), isr=(1,)), "no such replica"),
        (partition(None, (3,)), "no replica leads"),
        (partition(None, ()), "no replica leads"),
        (partition(3, (3,)), "broker 3 leads"),
        (partition(3, (1, 2, 3)), "broker 3 leads"),
        (partition(1, (1, 3)), "still in the ISR"),
    ],
)
def test_only_what_another_replica_has_for_certain_is_given_up(
    state: PartitionDescription | None, why: str | None
) -> None:
    refusal = why_not(3, state)

    assert refusal is None if why is None else why in str(refusal)
