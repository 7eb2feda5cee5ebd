"""The logs that make Parquet files a table of Delta Lake or of Apache Iceberg."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from analytics.errors import ReplayInputError
from analytics.store import table_formats
from analytics.store.part_files import PartFiles, PartWriters, empty_file
from analytics.store.store import Store
from analytics.store.table_formats import LIBRARIES, TableFormat, bring_up_to_date, require
from analytics.tables.catalog import PARTITIONS, TABLES

Rows = list[tuple[object, object]]

LOGGED = (TableFormat.DELTA, TableFormat.ICEBERG)


def write(root: Path, cluster: str, partitions: int) -> None:
    rows = [
        {"topic": "orders", "partition": number, "replicas": [1, 2], "directories": ["x"]}
        for number in range(partitions)
    ]
    with PartWriters(PartFiles(folder=str(root), cluster=cluster), "00000") as writers:
        writers.write(PARTITIONS, pa.Table.from_pylist(rows, PARTITIONS.schema))
    for table in TABLES:
        if table is not PARTITIONS:
            empty_file(Store(str(root)), table, cluster)


def read_by_library(kind: TableFormat, root: Path) -> Rows:
    if kind is TableFormat.DELTA:
        from deltalake import DeltaTable

        # Its dataset holds the files that the log names, and no others.
        found = DeltaTable(str(root / "partitions")).to_pyarrow_dataset().to_table()
    else:
        catalog = table_formats._catalog(Store(str(root)))
        found = catalog.load_table("jbod_replay.partitions").scan().to_arrow()
    assert found.column_names[0] == "cluster"
    return sorted((row["cluster"], row["partition"]) for row in found.to_pylist())


@pytest.mark.parametrize("kind", LOGGED, ids=lambda kind: kind.value)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::PendingDeprecationWarning")
def test_a_table_holds_the_rows_of_the_last_run_and_no_others(
    kind: TableFormat, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip(LIBRARIES[kind])
    write(tmp_path, "a", 2)
    write(tmp_path, "b", 1)
    store = Store(str(tmp_path))
    bring_up_to_date(kind, store, TABLES)
    assert caplog.messages == []
    assert read_by_library(kind, tmp_path) == [("a", 0), ("a", 1), ("b", 0)]

    for table in TABLES:
        shutil.rmtree(tmp_path / table.folder("a"))
    write(tmp_path, "c", 1)
    bring_up_to_date(kind, store, TABLES)
    bring_up_to_date(kind, store, TABLES)

    assert read_by_library(kind, tmp_path) == [("b", 0), ("c", 0)]
    # Whoever reads the Parquet files sees nothing of it.
    assert pq.read_table(tmp_path / "partitions").num_rows == 2
    bring_up_to_date(TableFormat.PARQUET, store, TABLES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(t.name for t in TABLES)
    assert sorted(path.name for path in (tmp_path / "partitions").iterdir()) == [
        "cluster=b",
        "cluster=c",
    ]


def test_a_format_whose_library_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ReplayInputError, match=r"needs the library deltalake: pip install jbodlab"):
        require(TableFormat.DELTA)
    require(TableFormat.PARQUET)


@pytest.mark.parametrize("kind", LOGGED)
def test_a_file_system_that_its_library_does_not_reach_is_refused(kind: TableFormat) -> None:
    with pytest.raises(ReplayInputError, match=f"format {kind.value}: .* webhdfs://nn/out"):
        require(kind, "webhdfs://nn/out")
    require(TableFormat.PARQUET, "webhdfs://nn/out")
