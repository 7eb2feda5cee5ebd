"""Arrow without pandas, which nothing here uses."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types


def use_arrow_alone() -> None:
    """Keep Arrow from importing pandas, in a process of our own.

    With the first array that it makes, pyarrow looks for pandas, once. To import it takes as long
    as all else that a replay imports. Who wants a DataFrame of pandas still gets it.
    """

    def refuse(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)

    finder: Any = SimpleNamespace(find_spec=refuse)
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
