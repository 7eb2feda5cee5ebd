"""Where tables are written: each as a whole, beside what else lies in the output directory.

A table is written into a folder of its own below `.jbod-replay-<process id>` first and then put in
its place, so that nobody reads half a table and a failed run leaves the old ones.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame

from analytics.errors import ReplayInputError
from analytics.tables import TABLES, Table, conform

WRITERS = 4
"""Tables that are written at the same time; each is a few small Spark jobs."""

BYTES_PER_FILE = 64 << 20

_OURS = (".parquet", ".crc")
_SUCCESS = "_SUCCESS"
_SCRATCH = ".jbod-replay-"


class OutputDir:
    """The output directory of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scratch = path / f"{_SCRATCH}{os.getpid()}"

    def prepare(self, input_dir: Path) -> None:
        """Check that tables can be written, before anything expensive is done.

        Args:
            input_dir: The metadata log directory, which nothing may be written into.

        Raises:
            ReplayInputError: the directory cannot be written, lies in the log, or holds something
                else in the place of a table.
        """
        target, log = self.path.resolve(), input_dir.resolve()
        if target == log or log in target.parents:
            raise ReplayInputError(f"output {self.path} lies inside the metadata log {input_dir}")
        for table in TABLES:
            self._refuse_foreign(self.path / table.name)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._remove_left_overs()
            self.scratch.mkdir()
        except OSError as error:
            raise ReplayInputError(
                f"output {self.path} is not writable: {error.strerror}"
            ) from error

    def write(self, frames: Mapping[Table, DataFrame], size_bytes: int) -> dict[str, Path]:
        """Write tables and put them in their places.

        Args:
            frames: The tables; columns that a table does not have are left out.
            size_bytes: Size of the log, by which the large tables are cut into files.

        Returns:
            The folder of each table.
        """
        files = 1 + size_bytes // BYTES_PER_FILE
        with ThreadPoolExecutor(WRITERS) as pool:
            jobs = [
                pool.submit(self._write_table, table, frame, files)
                for table, frame in frames.items()
            ]
            for job in jobs:
                job.result()
        return {table.name: self._put_in_place(table) for table in frames}

    def clean_up(self) -> None:
        """Remove what a run leaves besides its tables."""
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _write_table(self, table: Table, frame: DataFrame, files: int) -> None:
        conformed = conform(frame, table)
        cut = (
            conformed.coalesce(1)
            if files == 1
            else conformed.repartitionByRange(files, *table.order)
        )
        cut.sortWithinPartitions(*table.order).write.parquet(str(self.scratch / table.name))

    def _put_in_place(self, table: Table) -> Path:
        target = self.path / table.name
        if target.exists():
            target.rename(self.scratch / f"{table.name}.old")
        (self.scratch / table.name).rename(target)
        return target

    def _remove_left_overs(self) -> None:
        """Remove what runs left that were killed: their process is gone."""
        for entry in self.path.glob(f"{_SCRATCH}*"):
            owner = entry.name.removeprefix(_SCRATCH)
            if owner.isdecimal() and not _is_running(int(owner)):
                shutil.rmtree(entry, ignore_errors=True)

    def _refuse_foreign(self, target: Path) -> None:
        """Refuse to replace a folder that holds anything but a table."""
        if not target.exists():
            return
        if not target.is_dir() or any(
            not entry.name.endswith(_OURS) and entry.name != _SUCCESS for entry in target.iterdir()
        ):
            raise ReplayInputError(f"{target} is in the way: it is no table of an earlier replay")


def _is_running(process_id: int) -> bool:
    if process_id == os.getpid():
        return False  # its number came round, or an earlier run of this process
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
