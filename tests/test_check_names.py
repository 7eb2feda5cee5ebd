"""No two public classes of the servers and the library have the same name."""

from __future__ import annotations

from pathlib import Path

from scripts import check_names


def test_a_name_of_two_public_classes_is_found(tmp_path: Path) -> None:
    for package, source in (
        ("broker", "class Listener:\n    pass\n\n\nclass _Inner:\n    pass\n"),
        ("jbodlab", "def f():\n    class Listener:\n        pass\n\n\nclass _Inner:\n    pass\n"),
        ("controller", "\nclass Listener:\n    pass\n"),
    ):
        (tmp_path / package).mkdir()
        (tmp_path / package / "names.py").write_text(source)

    assert list(check_names.shared_names(tmp_path, check_names.PACKAGES)) == [
        "several classes are named Listener: broker/names.py:1, controller/names.py:2"
    ]


def test_no_name_is_shared() -> None:
    assert list(check_names.shared_names(check_names.ROOT, check_names.PACKAGES)) == []
