"""How it is said what a fault broke."""

from __future__ import annotations

import pytest

from fault_injection.mechanism import Broken


@pytest.mark.parametrize(
    ("what", "count", "text"),
    [
        ("processes", 1, "1 process"),
        ("processes", 2, "2 processes"),
        ("files", 1, "1 file"),
        ("bytes", 0, "0 bytes"),
    ],
)
def test_the_noun_agrees_with_the_count(what: str, count: int, text: str) -> None:
    assert str(Broken(what=what, count=count)) == text
