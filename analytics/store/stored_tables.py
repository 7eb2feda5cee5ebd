"""Tables as they lie in a store, read without Spark: of a cluster, or a bit of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.store.store import Store
from analytics.tables.table import Table

SUFFIX = ".parquet"


class StoredTables:
    """The tables of one cluster."""

    def __init__(self, tables: Iterable[Table], folder_of: Callable[[Table], str]) -> None:
        self.tables = {table.name: table for table in tables}
        self.folder_of = folder_of

    def dataset(self, name: str) -> list[str] | pa.dataset.Dataset:
        """Return a table for somebody to read, who takes of it what is needed.

        That is a list of files where DuckDB can read them by itself, and a dataset elsewhere.
        """
        table = self.tables[name]
        store = Store(self.folder_of(table))
        found = (one.name for one in store.files_in() if one.name.endswith(SUFFIX))
        paths = [store.path(name) for name in found]
        if paths and store.local is not None:
            return paths
        # To import it takes as long as all else that a replay imports: it brings pandas.
        from pyarrow import dataset

        return dataset.dataset(paths, table.schema, format="parquet", filesystem=store.files)
