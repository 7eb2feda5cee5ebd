"""Tables as they lie in a store, read without Spark: of one cluster, or of several."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.store.store import Store
from analytics.tables.catalog import BY_NAME
from analytics.tables.table import CLUSTER, STRING

SUFFIX = ".parquet"


class StoredTables:
    """The tables of some clusters, below one folder."""

    def __init__(self, store: Store, clusters: Collection[str]) -> None:
        self.store = store
        self.clusters = clusters

    def dataset(self, name: str) -> list[str] | pa.dataset.Dataset:
        """Return a table for somebody to read, who takes of it what is needed.

        That is a list of files where DuckDB can read them by itself, and a dataset elsewhere.
        """
        table, store = BY_NAME[name], self.store
        folders = {table.folder(cluster) for cluster in self.clusters}
        files = (file.name for file in store.files_in(name) if file.name.endswith(SUFFIX))
        paths = [store.path(file) for file in files if file.rpartition("/")[0] in folders]
        if paths and store.local is not None:
            return paths
        # To import it takes as long as all else that a replay imports: it brings pandas.
        from pyarrow import dataset

        cluster = pa.field(CLUSTER, STRING)
        return dataset.dataset(
            paths,
            table.schema.append(cluster),
            format="parquet",
            filesystem=store.files,
            partitioning=dataset.partitioning(pa.schema([cluster]), flavor="hive"),
        )
