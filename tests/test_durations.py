from __future__ import annotations

from pathlib import Path

from tests.durations import read, rendered, said


def test_what_is_kept_is_read_again_without_files_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()

    text = rendered({"test_a.py": 1.26, "test_gone.py": 2.0}, tmp_path)

    assert text == "test_a.py\t1.3\n"
    assert read(text) == {"test_a.py": 1.3}


def test_only_what_takes_clearly_longer_grew() -> None:
    before = {"test_a.py": 10.0, "test_b.py": 10.0, "test_c.py": 1.0}
    now = {"test_a.py": 14.0, "test_b.py": 21.0, "test_c.py": 3.0, "test_new.py": 60.0}

    assert said(before, now) == "CPU time of tests: 98 s; grew: test_b.py 10 -> 21 s"
    assert said(before, before) == "CPU time of tests: 21 s; grew: nothing"
