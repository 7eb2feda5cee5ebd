"""The tables as catalogs know them: a log of Delta Lake or of Apache Iceberg beside the files.

The Parquet files stay what they are and where they are; a log names those that belong to the table,
with the cluster as its partition. Only the driver writes it, without reading a row. It is brought
up to date after a run, whose files have replaced others: older versions cannot be read any more.

    OUTPUT/<table>/_delta_log/     Delta Lake, with the library deltalake
    OUTPUT/_iceberg/<table>/       Apache Iceberg, with pyiceberg
    OUTPUT/_iceberg/catalog.db     its catalog, if the user's settings name none
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from analytics.errors import ReplayInputError
from analytics.store.store import AT_ONCE, Store, StoredFile
from analytics.tables.table import CLUSTER, Table

CATALOG = "jbod_replay"
"""Name of the catalog in pyiceberg's settings, and of the namespace of the tables."""

DELTA_LOG = "_delta_log"
"""Folder beside those of the clusters; readers of Parquet files leave it out by its name."""

ICEBERG = "_iceberg"
_CATALOG_FILE = "catalog.db"


class TableFormat(Enum):
    """What the tables are besides Parquet files."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


LIBRARIES = {TableFormat.DELTA: "deltalake", TableFormat.ICEBERG: "pyiceberg"}


def require(table_format: TableFormat, output: str = "") -> None:
    """Check that the library of a format is there, and knows the file system of the output.

    Args:
        table_format: The format.
        output: Path or URI of the output directory.

    Raises:
        ReplayInputError: it is not, or does not.
    """
    library = LIBRARIES.get(table_format)
    if library is not None and output.startswith(("webhdfs:", "swebhdfs:")):
        raise ReplayInputError(f"format {table_format.value}: {library} does not reach {output}")
    if library is not None and importlib.util.find_spec(library) is None:
        raise ReplayInputError(
            f"format {table_format.value} needs the library {library}: "
            f"pip install jbodlab[{table_format.value}]"
        )


def bring_up_to_date(table_format: TableFormat, store: Store, tables: Iterable[Table]) -> None:
    """Let the logs of tables name the files that are there.

    Args:
        table_format: Which logs; those of Parquet tables that once had another one are removed.
        store: The output directory.
        tables: The tables, in their places.

    Raises:
        ReplayInputError: the library does not do it.
    """
    try:
        match table_format:
            case TableFormat.PARQUET:
                for table in tables:
                    store.remove(f"{table.name}/{DELTA_LOG}")
                store.remove(ICEBERG)
            case TableFormat.DELTA:
                for table in tables:
                    _write_delta_log(store, table)
            case TableFormat.ICEBERG:
                with _silent("pyiceberg"):
                    _write_iceberg_logs(store, tables)
    except OSError as error:
        raise ReplayInputError(f"output {store.source} is not writable: {error}") from error


def _files(store: Store, table: Table) -> Iterator[tuple[str, StoredFile, int]]:
    """Yield the label of the cluster, the file and the number of its rows, for all with rows."""
    files = [file for file in store.files_in(table.name) if file.name.endswith(".parquet")]
    files = [file for file in files if PurePosixPath(file.name).parent.name != DELTA_LOG]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        counts = pool.map(lambda file: _count(store, file), files)
        for file, rows in zip(files, counts, strict=True):
            folder = PurePosixPath(file.name).parent.name
            if rows:
                yield folder.removeprefix(f"{CLUSTER}="), file, rows


def _count(store: Store, file: StoredFile) -> int:
    return int(pq.read_metadata(store.path(file.name), filesystem=store.files).num_rows)


def _write_delta_log(store: Store, table: Table) -> None:
    from deltalake import DeltaTable, Schema  # type: ignore[import-not-found,unused-ignore]
    from deltalake.exceptions import DeltaError  # type: ignore[import-not-found,unused-ignore]
    from deltalake.transaction import (  # type: ignore[import-not-found,unused-ignore]
        AddAction,
        create_table_with_add_actions,
    )

    uri = str(store.local / table.name) if store.local else f"{store.source}/{table.name}"
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    options = {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http:") else {}
    actions: list[Any] = [
        AddAction(
            path=str(PurePosixPath(file.name).relative_to(table.name)),
            size=file.size,
            partition_values={CLUSTER: label},
            modification_time=file.changed_ns // 1_000_000,
            data_change=True,
            stats=json.dumps({"numRecords": rows}),
        )
        for label, file, rows in _files(store, table)
    ]
    schema = Schema.from_arrow(table.stored_schema)
    try:
        if DeltaTable.is_deltatable(uri, options):
            known = DeltaTable(uri, storage_options=options)
            known.create_write_transaction(actions, "overwrite", schema, [CLUSTER])
        else:
            create_table_with_add_actions(
                uri, schema, actions, partition_by=[CLUSTER], storage_options=options
            )
    except DeltaError as error:
        raise ReplayInputError(f"table {uri}: {str(error).splitlines()[0]}") from error


@contextmanager
def _silent(library: str) -> Iterator[None]:
    """Keep warnings of a library from the terminal: several for each file, of what is known."""
    logger = logging.getLogger(library)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _write_iceberg_logs(store: Store, tables: Iterable[Table]) -> None:
    from pyiceberg.exceptions import NoSuchTableError  # type: ignore[import-not-found,unused-ignore]
    from pyiceberg.expressions import AlwaysTrue  # type: ignore[import-not-found,unused-ignore]
    from pyiceberg.partitioning import (  # type: ignore[import-not-found,unused-ignore]
        PartitionField,
        PartitionSpec,
    )
    from pyiceberg.transforms import IdentityTransform  # type: ignore[import-not-found,unused-ignore]

    catalog = _catalog(store)
    catalog.create_namespace_if_not_exists(CATALOG)
    for table in tables:
        name = f"{CATALOG}.{table.name}"
        location = _uri(store, f"{ICEBERG}/{table.name}")
        try:
            known = catalog.load_table(name)
        except NoSuchTableError:
            by_cluster = PartitionField(1, 1000, IdentityTransform(), CLUSTER)
            known = catalog.create_table(
                name, _with_ids(table), location, PartitionSpec(by_cluster)
            )
        paths = [_uri(store, file.name) for _, file, _ in _files(store, table)]
        with known.transaction() as change:
            if known.current_snapshot() is not None:
                change.delete(AlwaysTrue())
            if paths:
                change.add_files(paths, check_duplicate_files=False)


def _catalog(store: Store) -> Any:
    """Return the catalog of the user's settings, else one in a file of the output."""
    from pyiceberg.catalog import load_catalog  # type: ignore[import-not-found,unused-ignore]
    from pyiceberg.utils.config import Config  # type: ignore[import-not-found,unused-ignore]

    if Config().get_catalog_config(CATALOG):
        return load_catalog(CATALOG)
    if store.local is None:
        raise ReplayInputError(
            f"format iceberg: {store.source} is no local directory; name a catalog {CATALOG} in "
            "pyiceberg's settings"
        )
    store.make_folder(ICEBERG)
    uri = f"sqlite:///{store.local / ICEBERG / _CATALOG_FILE}"
    return load_catalog(CATALOG, type="sql", uri=uri, warehouse=_uri(store, ICEBERG))


def _uri(store: Store, name: str = "") -> str:
    """Return a URI as pyiceberg has it: nothing in it is quoted."""
    return f"file://{store.local / name}" if store.local else f"{store.source}/{name}".rstrip("/")


def _with_ids(table: Table) -> Any:
    from pyiceberg.io.pyarrow import (  # type: ignore[import-not-found,unused-ignore]
        _pyarrow_to_schema_without_ids,
    )
    from pyiceberg.schema import assign_fresh_schema_ids  # type: ignore[import-not-found,unused-ignore]

    return assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(table.stored_schema))
