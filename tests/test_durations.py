from __future__ import annotations

from pathlib import Path

from tests.durations import missing, read, rendered, said


def test_what_is_kept_is_read_again_without_files_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").touch()

    text = rendered({"test_a.py": 1.26, "test_gone.py": 2.0}, tmp_path)

    assert text == "test_a.py\t1.3\n"
    assert read(text) == {"test_a.py": 1.3}


def test_only_what_takes_clearly_longer_grew() -> None:
    before = {"test_a.py": 10.0, "test_b.py": 10.0, "test_c.py": 1.0}
    now = {"test_a.py": 14.0, "test_b.py": 21.0, "test_c.py": 3.0, "test_new.py": 60.0}

    assert "; grew: test_b.py 10 -> 21 s;" in said(before, now)
    assert "; grew: nothing;" in said(before, before)


def test_the_closing_line_has_the_sum_and_the_ten_files_that_cost_most() -> None:
    now = {f"test_{number}.py": float(number) for number in range(12)}

    line = said({}, now)

    assert line.startswith("CPU time of tests: 66 s; grew: nothing; most: test_11.py 11 s, test_10")
    assert line.endswith("test_2.py 2 s")


def test_a_test_file_without_a_line_is_missing(tmp_path: Path) -> None:
    (tmp_path / "tests" / "lab").mkdir(parents=True)
    for name in ("test_a.py", "lab/test_b.py", "lab/builders.py"):
        (tmp_path / "tests" / name).touch()

    # Only `make soak` runs it.
    soak = tmp_path / "tests" / "test_c.py"
    soak.write_text("pytestmark = [\n    pytest.mark.cluster,\n    pytest.mark.soak,\n]\n", "utf-8")

    assert missing({"tests/test_a.py": 1.0}, tmp_path) == ["tests/lab/test_b.py"]
