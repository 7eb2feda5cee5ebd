"""Commands that are printed work as they are pasted into the same shell."""

from __future__ import annotations

from pathlib import Path

from lab.cluster import programs


def script(folder: Path) -> str:
    folder.mkdir()
    path = folder / "jbodlab"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_what_is_on_the_path_is_called_by_its_name(tmp_path: Path) -> None:
    called = script(tmp_path / "bin")

    assert programs.jbodlab(called, {"PATH": str(tmp_path / "bin")}) == "jbodlab"


def test_what_is_not_or_is_another_one_is_called_by_its_path(tmp_path: Path) -> None:
    called, other = script(tmp_path / "a b"), script(tmp_path / "other")

    for path in ("/nonexistent", str(Path(other).parent)):
        assert programs.jbodlab(called, {"PATH": path}) == f"'{called}'"


def test_what_is_on_the_path_of_one_run_only_is_called_by_its_path(tmp_path: Path) -> None:
    called = script(tmp_path / "bin")

    assert programs.jbodlab(called, {"PATH": str(tmp_path / "bin"), "UV": "/bin/uv"}) == called


def test_a_module_is_called_by_the_name_of_the_command() -> None:
    assert programs.jbodlab("/x/lab/__main__.py", {"PATH": ""}) == "jbodlab"
