"""Payloads are put together by several threads at once, where a driver does what tasks would."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pytest

from analytics.read import texts
from analytics.read.texts import Dictionary

THREADS, ROUNDS = 4, 60


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let threads take turns all the while, over pieces that nobody has made yet."""
    monkeypatch.setattr(texts, "_standing", texts._Standing())
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_find_their_own_pieces_in_what_stays() -> None:
    def wrong(thread: int) -> list[str]:
        found = []
        for number in range(ROUNDS):
            dictionary = Dictionary()
            names = [f"{thread}-{number}-{part}:" for part in range(4)]
            places = [dictionary.small_numbers(name) + 7 for name in names]
            made = dictionary.take(np.array(places, dtype=np.int32)).to_pylist()
            found += [text for text, name in zip(made, names, strict=True) if text != f"{name}7"]
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        assert [*pool.map(wrong, range(THREADS))] == [[]] * THREADS


def test_what_stays_may_outgrow_the_place_that_a_dictionary_has_for_it() -> None:
    early = Dictionary()
    own = early.small_numbers("mine:")
    late = early.add(pa.array(["behind"]))
    for number in range(100):
        Dictionary().small_numbers(f"{number}:")

    assert early.take(np.array([own, late], dtype=np.int32)).to_pylist() == ["mine:0", "behind"]
