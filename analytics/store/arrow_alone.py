"""Arrow without pandas, which nothing here uses."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types


def use_arrow_alone() -> None:
    """Keep Arrow from importing pandas, in a process of our own.

    pyarrow imports pandas with its first array, which takes as long as all other imports of a
    replay. A caller that wants a DataFrame of pandas still gets it.
    """

    def refuse(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)

    sys.meta_path.insert(0, finder := SimpleNamespace(find_spec=refuse))
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
