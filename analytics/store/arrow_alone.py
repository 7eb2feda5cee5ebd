"""Arrow without pandas, which nothing here uses."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(name=fullname)


def use_arrow_alone() -> None:
    """Keep Arrow from importing pandas, in a process of our own.

    With the first array that it makes, pyarrow looks for pandas, once. To import it takes as long
    as all else that a replay imports. Who wants a DataFrame of pandas still gets it.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
