"""A dict in parts behaves as a dict."""

from __future__ import annotations

import sys
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbodlab.vocabulary import large_dict
from jbodlab.vocabulary.large_dict import UNDIVIDED_MAX, LargeDict

pytestmark = pytest.mark.unit

KEYS = st.integers(0, 9)
STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "pop", "get"]), KEYS, st.integers()), max_size=60
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_dict, "UNDIVIDED_MAX", 3)


@given(STEPS)
def test_each_step_gives_what_a_dict_gives(steps: list[tuple[str, int, int]]) -> None:
    expected: dict[int, int] = {}
    found: LargeDict[int, int] = LargeDict()
    for step, key, value in steps:
        if step == "set":
            found[key] = expected[key] = value
        elif step == "pop":
            assert found.pop(key, None) == expected.pop(key, None)
        assert (key in found, found.get(key)) == (key in expected, expected.get(key))
        assert (dict(found) == expected, len(found)) == (True, len(expected))
        assert list(found.items()) == list(found.copy().items())
    found.put_last(list(expected.items()))
    assert dict(found) == expected


def test_few_keys_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_dict, "UNDIVIDED_MAX", 8)
    found = _of("abcdefgh")

    found["a"] = 9
    del found["d"]
    found["d"] = 10
    found.put_last([("b", 11)])

    assert list(found) == list("acefghdb")


def test_key_that_is_not_there_is_an_error() -> None:
    found = _of("abcd")

    with pytest.raises(KeyError, match="x"):
        found["x"]
    with pytest.raises(KeyError, match="x"):
        del found["x"]


def test_values_that_are_taken_come_in_order_in_each_part_and_are_forgotten() -> None:
    found = _of("abcdefgh")
    found.put_last([("a", 9), ("i", 10)])

    parts = list(found.take_parts())

    assert sorted(chain(*parts)) == [1, 2, 3, 4, 5, 6, 7, 9, 10]
    assert all(part == sorted(part) for part in parts)
    assert (list(found), len(found)) == ([], 0)


def test_entries_are_divided_before_the_table_grows_once_more() -> None:
    undivided = dict.fromkeys(range(22_000))
    size = sys.getsizeof(undivided)

    undivided.update(dict.fromkeys(range(UNDIVIDED_MAX + 1)))

    assert sys.getsizeof(undivided) == size


def _of(keys: Any) -> LargeDict[Any, int]:
    found: LargeDict[Any, int] = LargeDict()
    for value, key in enumerate(keys):
        found[key] = value
    return found
