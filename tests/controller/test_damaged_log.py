"""A controller whose log is damaged: it refuses to start where committed records would be lost."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbodlab.controller_api import requests
from jbodlab.record_batch.record_batch import iterate_headers
from jbodlab.vocabulary.error_code import ErrorCode
from tests.builders import brokers
from tests.controller.process import Process

pytestmark = pytest.mark.process

PARTITIONS = 700
TOPICS = ("first", "second", "third")


@pytest.fixture(params=[signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"], scope="module")
def original(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of a log of three segments, left by a process that has ended."""
    home = tmp_path_factory.mktemp("original")
    settings = {"metadata_max_idle_interval_ms": "0", "metadata_max_retention_bytes": "262144"}
    with Process(home, **settings) as it:
        it.start()
        it.heartbeat(1, it.register(1, "A1,A2"))
        for name in TOPICS:
            create(it, name, PARTITIONS)
        create(it, "last", 1)
        it.stop(request.param)
        yield it.metadata_dir
    shutil.rmtree(home)


@pytest.fixture
def process(original: Path, tmp_path: Path) -> Iterator[Process]:
    with Process(tmp_path, metadata_max_idle_interval_ms="0") as it:
        shutil.rmtree(it.metadata_dir)
        shutil.copytree(original, it.metadata_dir)
        yield it


def create(it: Process, name: str, partitions: int) -> None:
    assignments = tuple((number, brokers(1)) for number in range(partitions))
    topic = requests.NewTopic(name=name, assignments=assignments)
    (created,) = it.ask("CreateTopics", requests.CreateTopicsRequest(topics=(topic,))).topics
    assert created.error_code == ErrorCode.NONE


def segments(it: Process) -> list[Path]:
    found = sorted((it.metadata_dir / "__cluster_metadata-0").glob("*.log"))
    assert len(found) >= 3
    return found


def starts(path: Path) -> list[int]:
    return [position for position, _ in iterate_headers(path.read_bytes())]


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def topics(it: Process) -> set[str]:
    it.start()
    it.stop(signal.SIGTERM)
    return set(it.image().topics.by_name)


# Each byte of each batch is tried in tests/jbodlab/metadata/log/test_damaged_log.py.
@pytest.mark.parametrize(
    ("segment", "batch", "byte"),
    [(0, 0, 61), (0, 1, 8), (1, 0, 0), (-1, 0, 16), (-1, -2, 12), (-1, -2, 17)],
)
def test_one_damaged_byte_in_the_middle_ends_the_start_and_changes_nothing(
    process: Process, segment: int, batch: int, byte: int
) -> None:
    path = segments(process)[segment]
    position = starts(path)[batch]
    flip(path, position + byte)
    before = {each: each.read_bytes() for each in segments(process)}

    (line,) = process.refused()

    assert f"{path} is damaged at position {position}: " in line
    assert {each: each.read_bytes() for each in segments(process)} == before


def test_a_missing_file_in_the_middle_ends_the_start(process: Process) -> None:
    before, missing, behind = segments(process)[:3]
    missing.rename(process.home / missing.name)

    (line,) = process.refused()

    assert f"{before} is damaged at position {before.stat().st_size}: " in line
    first, next_offset = int(missing.stem), int(behind.stem)
    assert f"offsets {first} to {next_offset - 1} are missing" in line
    assert f"the log continues with {behind.name}" in line
    (process.home / missing.name).rename(missing)
    assert topics(process) == {*TOPICS, "last"}


def test_a_missing_first_file_ends_the_start(process: Process) -> None:
    missing = segments(process)[0]
    missing.unlink()

    (line,) = process.refused()

    assert f"{missing.parent} is damaged at position 0: no snapshot covers" in line


@pytest.mark.parametrize("byte", [8, 12, 70])
def test_a_damaged_last_batch_is_cut_and_kept_aside(process: Process, byte: int) -> None:
    path = segments(process)[-1]
    position = starts(path)[-1]
    flip(path, position + byte)
    cut = path.read_bytes()[position:]

    assert topics(process) == set(TOPICS)

    assert path.with_name(f"{path.name}.{position}.damaged").read_bytes() == cut
    assert "truncating a metadata segment after its last valid batch" in process.stderr()
