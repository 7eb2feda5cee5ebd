"""Arguments, exit codes and behaviour as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jbodlab.metadata.records.config_records import ConfigRecord
from jbodlab.metadata.records.frame import VersionedRecord
from tests.metadata_batches import data_batch
from tests.storage_tool.dumping import LOG, TIME_MS, dump, no_ops, values, write

PROGRAM = [sys.executable, "-m", "jbodlab", "storage", "dump"]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name", [LOG, "missing.log", "missing.checkpoint", "1.index", "1.snapshot"]
)
def test_missing_file_is_one_line(tmp_path: Path, name: str) -> None:
    there = write(tmp_path, no_ops())
    path = tmp_path / "missing" / name

    done = dump(path, there)

    assert done.code == 1
    assert done.err == f"{path}: cannot be read: No such file or directory\n"
    assert f"Dumping {there}" in done.lines
    assert done.lines[0] == f"Dumping {path}"


def test_directory_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.mkdir()

    done = dump(path)

    assert done.code == 1
    assert done.err == f"{path}: cannot be read: Is a directory\n"


def test_files_of_unknown_kind_are_passed(tmp_path: Path) -> None:
    log = write(tmp_path, no_ops())
    other, bare = tmp_path / "meta.properties", tmp_path / "quorum-state"

    done = dump(other, bare, log)

    assert done.code == 0
    assert done.err == f"Ignoring unknown file {other}\nIgnoring unknown file {bare}\n"
    assert len(done.lines) == 5


def test_name_that_says_nothing_does_not_hide_the_content(tmp_path: Path) -> None:
    log = write(tmp_path, values(b"x"), name="copy.log")
    snapshot = write(tmp_path, values(b"x"), name="copy.checkpoint")

    done = dump(log, snapshot)

    assert sum(line.startswith("baseOffset") for line in done.lines) == 2
    assert done.code == 1
    assert done.err == (
        f"{log}: the name does not begin with an offset\n"
        f"{snapshot}: the name has no end offset and epoch\n"
    )


def test_path_is_shown_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "d", values(b"x"), values(b"y", base_offset=7))
    monkeypatch.chdir(tmp_path)

    done = dump("--deep-iteration", f"d//{LOG}", f"./d/{LOG}")

    assert [line for line in done.lines if line.startswith("Dumping")] == [
        f"Dumping d/{LOG}",
        f"Dumping ./d/{LOG}",
    ]
    assert f"Non-consecutive offsets in {tmp_path}/./d/{LOG}\n" in done.err


@pytest.mark.process
def test_name_that_is_no_text_is_shown_as_it_is(tmp_path: Path) -> None:
    folder = (str(tmp_path) + "/\udcff").encode(errors="surrogateescape")
    path = Path(folder.decode(errors="surrogateescape"))
    write(path, values(b"x"))

    done = subprocess.run([*PROGRAM, str(path / LOG)], capture_output=True, cwd=ROOT, check=True)

    assert done.stdout.startswith(b"Dumping " + folder)
    assert done.stderr == b""


@pytest.mark.process
def test_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    path = write(tmp_path, *(no_ops(500, base_offset=500 * number) for number in range(40)))

    process = subprocess.Popen(
        [*PROGRAM, "--cluster-metadata-decoder", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()

    assert process.wait(timeout=60) == 141
    assert errors == b""


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, no_ops())

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PROGRAM, str(path)],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == b"jbodlab: cannot write the output: No space left on device\n"


@pytest.mark.process
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    record = VersionedRecord(ConfigRecord(name="k", value="v" * 30_000), 0)
    path = tmp_path / LOG
    count = 3000
    with path.open("wb") as file:
        for offset in range(count):
            file.write(data_batch([record], base_offset=offset, epoch=1, timestamp_ms=TIME_MS))
    assert path.stat().st_size > 85 << 20

    script = (
        "import resource, sys; from jbodlab.cli.program import main;"
        "code = main(['storage', 'dump', *sys.argv[1:]]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    used = []
    for limit in ("1000000", str(2**31 - 1)):
        with (tmp_path / "out").open("wb") as out:
            done = subprocess.run(
                [
                    *(sys.executable, "-c", script, "--cluster-metadata-decoder"),
                    *("--max-bytes", limit, str(path)),
                ],
                stdout=out,
                stderr=subprocess.PIPE,
                cwd=ROOT,
                check=True,
            )
        used.append(int(done.stderr))
    assert (tmp_path / "out").stat().st_size > 85 << 20
    assert used[1] - used[0] < 16 << 10, f"{used} KiB"
