from __future__ import annotations

import pytest

from admin_tool.log_dir_actions.cordon import cordoned, new_value
from jbodlab.kafka_admin.configs import ConfigEntry

PATHS = ["/b", "/a", "/c"]


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        ([], ["/a"], ["/a"]),
        (["/a"], ["/b", "/a", "/b"], ["/a", "/b"]),
        (["/a"], ["*"], ["*"]),
        (["*"], ["/a"], ["*"]),
    ],
)
def test_cordoning_adds(before: list[str], wanted: list[str], after: list[str]) -> None:
    assert cordoned(before, wanted, PATHS, is_cordon=True) == after


@pytest.mark.parametrize(
    ("before", "wanted", "after"),
    [
        (["/a", "/b"], ["/a"], ["/b"]),
        (["/a"], ["/b"], ["/a"]),
        (["/a", "/b"], ["*"], []),
        (["*"], ["/a"], ["/b", "/c"]),
        (["*"], ["*"], []),
    ],
)
def test_uncordoning_takes_out_and_leaves_the_others(
    before: list[str], wanted: list[str], after: list[str]
) -> None:
    assert cordoned(before, wanted, PATHS, is_cordon=False) == after


def entry(*synonyms: tuple[str | None, int]) -> ConfigEntry:
    return ConfigEntry(name="cordoned.log.dirs", value="/a", source=2, synonyms=synonyms)


def test_an_empty_value_is_deleted_unless_another_would_come_forth() -> None:
    own, static, default = ("/a", 2), ("/b", 4), ("", 5)
    assert new_value(entry(own, default), []) is None
    assert new_value(entry(own, static, default), []) == ""
    assert new_value(entry(own), ["/a", "/b"]) == "/a,/b"
