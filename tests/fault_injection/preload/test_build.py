from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from fault_injection.errors import FaultError
from fault_injection.preload import build

pytestmark = pytest.mark.process
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that nobody has compiled yet."""
    copies = [tmp_path / source.name for source in build.SOURCES]
    for copy, source in zip(copies, build.SOURCES, strict=True):
        copy.write_text(source.read_text() + "\n/* changed */\n")
    monkeypatch.setattr(build, "SOURCES", tuple(copies))


def test_the_library_of_each_machine_is_compiled_from_these_sources() -> None:
    for machine in build.MACHINES:
        made = build.compiled(machine)
        assert made.exists(), "run scripts/compile_preload.py"
        assert [path.name for path in made.parent.glob(f"faults-{machine}-*")] == [made.name]


def test_the_library_is_put_there_once_and_every_user_can_load_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    first = build.library([tmp_path / "new" / "folder"])
    made = first.stat()

    again = build.library([tmp_path / "new" / "folder"])

    assert again == first
    assert again.stat().st_ino == made.st_ino
    assert stat.S_IMODE(made.st_mode) == 0o755
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o755
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_a_library_that_is_there_is_taken_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build.library([tmp_path / "cache"])

    def refuse(path: Path, *_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    for name in ("chmod", "mkdir", "rename"):
        monkeypatch.setattr(Path, name, refuse)

    assert build.library([tmp_path / "cache"]) == first


@needs_compiler
@pytest.mark.usefixtures("edited")
def test_another_source_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = build.library([tmp_path / "cache"])
    monkeypatch.undo()

    assert build.library([tmp_path / "cache"]) != edited


@needs_compiler
def test_the_source_compiles_without_a_warning() -> None:
    done = subprocess.run(
        ["cc", *build.FLAGS, "-Werror", "-fsyntax-only", str(build.SOURCES[0])],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("edited")
def test_a_missing_compiler_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FaultError) as refused:
        build.library([tmp_path / "cache"])

    assert str(refused.value) == (
        "preloaded faults need a C compiler, and cc is not installed "
        "(apt-get install gcc libc6-dev)"
    )
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("edited")
def test_a_failing_compiler_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\necho 'In file included' >&2\necho 'x.c:1: error: no dlfcn.h' >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FaultError) as refused:
        build.library([tmp_path / "cache"])

    assert str(refused.value) == "cc cannot build the preloaded library: x.c:1: error: no dlfcn.h"
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["with blank", "with:colon", "file/below", "linked"])
def test_a_folder_that_cannot_be_used_is_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "linked").symlink_to(tmp_path / "nowhere")

    found = build.library([tmp_path / name, tmp_path / "second"])

    assert found.parent == tmp_path / "second"


def test_where_no_folder_can_be_used_each_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FaultError) as refused:
        build.library([tmp_path / "with blank", tmp_path / "file" / "cache"])

    name = build.file_name(os.uname().machine)
    assert str(refused.value) == (
        f"no folder for the preloaded library: {tmp_path}/with blank/{name}: its path contains a "
        f"colon or a blank; {tmp_path}/file/cache/{name}: Not a directory"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_a_folder_of_somebody_else_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    os.chown(tmp_path / "foreign", 1500, 1500)

    assert build.library([tmp_path / "foreign", tmp_path / "own"]).parent == tmp_path / "own"
