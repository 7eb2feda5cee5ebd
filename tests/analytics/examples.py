"""How many examples a property is tried on: some with every run, many more with `-m soak`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings


def examples(
    few: int, many: int, *strategies: Any, **named: Any
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Make a test of a property; it is not `wraps`, for pytest would look for its arguments."""

    def decorate(holds: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.soak)])
        def run(count: int) -> None:
            settings(max_examples=count)(given(*strategies, **named)(holds))()

        run.__name__, run.__qualname__ = holds.__name__, holds.__qualname__
        run.__module__, run.__doc__ = holds.__module__, holds.__doc__
        return run

    return decorate
