"""Tables as they lie in a store, read without Spark: of a cluster, or a bit of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.store.store import Store, StoredFile
from analytics.tables.table import Table

SUFFIX = ".parquet"


class StoredTables:
    """The tables of one cluster.

    Args:
        tables: The tables.
        folder_of: Path or URI of the folder of a table's files.
        names: For a table the names of its files, if not all in the folder are.
    """

    def __init__(
        self,
        tables: Iterable[Table],
        folder_of: Callable[[Table], str],
        names: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        self.tables = {table.name: table for table in tables}
        self.folder_of = folder_of
        self.names = names

    def dataset(self, name: str) -> list[str] | pa.dataset.Dataset:
        """Return a table for somebody to read, who takes of it what is needed.

        That is a list of files where DuckDB can read them by itself, and a dataset elsewhere.
        """
        table = self.tables[name]
        store = Store(self.folder_of(table))
        paths = [store.path(one.name) for one in files_of(store, "", self.names.get(name))]
        if paths and store.local is not None:
            return paths
        # To import it takes as long as all else that a replay imports: it brings pandas.
        from pyarrow import dataset

        return dataset.dataset(paths, table.schema, format="parquet", filesystem=store.files)

    def rows(self, table: Table, columns: Sequence[str]) -> pa.Table:
        """Return columns of a table that has few rows."""
        store = Store(self.folder_of(table))
        schema = pa.schema([table.schema.field(name) for name in columns])
        files = files_of(store, "", self.names.get(table.name))
        paths = [store.path(one.name) for one in files]
        return pa.concat_tables([schema.empty_table(), *rows_of(store, paths, schema)])


def files_of(store: Store, folder: str, names: Collection[str] | None) -> list[StoredFile]:
    """Return the Parquet files of a folder; if names are given, those of them only."""
    return [
        one
        for one in store.files_in(folder)
        if one.name.endswith(SUFFIX) and (names is None or PurePosixPath(one.name).name in names)
    ]


def rows_of(store: Store, paths: Sequence[str], schema: pa.Schema) -> Iterator[pa.Table]:
    """Return what files hold, one by one, with the columns of a schema."""
    for path in paths:
        with pq.ParquetFile(path, filesystem=store.files) as file:
            yield file.read(columns=schema.names).select(schema.names).cast(schema)
