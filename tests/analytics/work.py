"""How much is done: for tests that something does not grow with the product of two numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from analytics.read.arrays import Column


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of Python a function runs, each turn of a comprehension one."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class Watched(np.ndarray):
    """An array that counts the elements which NumPy's functions look at, of it and what is made."""

    looked_at = 0

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Call a function of elements, such as a comparison."""
        Watched.looked_at += max(np.size(one) for one in inputs)
        options |= {"out": tuple(map(_plain, options["out"]))} if "out" in options else {}
        return _watched(getattr(ufunc, method)(*map(_plain, inputs), **options))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Call any other function, such as a search."""
        # A search looks at few elements of what it searches in.
        Watched.looked_at += np.size(args[1]) if func is np.searchsorted else self.size
        return super().__array_function__(func, types, args, kwargs)


def elements_looked_at(work: Callable[[Callable[[Column], Column]], object]) -> int:
    """Return how many elements of arrays a function looks at.

    Args:
        work: Gets a function that makes an array one that is watched.
    """
    Watched.looked_at = 0
    work(lambda array: array.view(Watched))
    return Watched.looked_at


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def _watched(value: Any) -> Any:
    return value.view(Watched) if isinstance(value, np.ndarray) else value
