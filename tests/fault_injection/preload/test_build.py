from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from fault_injection.errors import FaultError
from fault_injection.preload import build

pytestmark = pytest.mark.process
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")


@needs_compiler
def test_the_library_is_built_once_and_every_user_can_load_it(tmp_path: Path) -> None:
    first = build.library(tmp_path / "new" / "folder")
    made = first.stat()

    again = build.library(tmp_path / "new" / "folder")

    assert again == first
    assert again.stat().st_ino == made.st_ino
    assert stat.S_IMODE(made.st_mode) == 0o755
    assert stat.S_IMODE(first.parent.stat().st_mode) == 0o755
    assert [path.name for path in first.parent.iterdir()] == [first.name]


@needs_compiler
def test_another_source_is_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build.library(tmp_path)
    copies = [tmp_path / source.name for source in build.SOURCES]
    for copy, source in zip(copies, build.SOURCES, strict=True):
        copy.write_text(source.read_text() + "\n/* changed */\n")
    monkeypatch.setattr(build, "SOURCES", tuple(copies))

    assert build.library(tmp_path) != first


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


def test_a_missing_compiler_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(FaultError) as refused:
        build.library(tmp_path / "cache")

    assert str(refused.value) == (
        "preloaded faults need a C compiler, and cc is not installed "
        "(apt-get install gcc libc6-dev)"
    )
    assert list((tmp_path / "cache").iterdir()) == []


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
        build.library(tmp_path / "cache")

    assert str(refused.value) == "cc cannot build the preloaded library: x.c:1: error: no dlfcn.h"
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["with blank", "with:colon"])
def test_a_folder_that_cannot_be_named_to_the_loader_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(
        FaultError, match="cannot be preloaded: its path contains a colon or a blank"
    ):
        build.library(tmp_path / name)


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(FaultError, match=r"cannot build the preloaded library .*: Not a directory"):
        build.library(tmp_path / "file" / "cache")
