"""Where tables are written: each as a whole, beside what else lies in the output directory.

A run holds the lock of the output (`store.lock`) from its preparation to its end. Spark's
tasks, or this process (`store.part_files`), write all files into a scratch folder,
`.jbod-replay-<uuid>`, first. The commit is one manifest, written last: it names
what has to be put in its place. A run that is killed before leaves the old tables; one that is
killed after it leaves the rest of the work to the next run. So nobody who runs a replay gets a
mixture of two.

    OUTPUT/<table>/cluster=<label>/*.parquet     rows of one cluster
    OUTPUT/_state/cluster=<label>/               what the tables of a cluster are of
    OUTPUT/report.html                           the page of the one cluster, or the start page of
    OUTPUT/reports/*.html                        several, with a page of each
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

import pyarrow as pa  # type: ignore[import-untyped] # it comes without types

from analytics.errors import ReplayInputError, reason_of
from analytics.job.known_inputs import STATE
from analytics.page.report_page import FILE_NAME, MARK, MARK_WITHIN_BYTES
from analytics.store.lock import Lock, LockedError, take_lock
from analytics.store.part_files import PartWriters, fill, in_order
from analytics.store.store import Store, is_inside
from analytics.tables.table import CLUSTER, Table

MANIFEST = "_replay_manifest.json"
"""In the output while what it names is put in its place."""

REPORTS = "reports"
"""Folder of the pages, where there are several clusters."""

_OF_CLUSTER = f"{CLUSTER}="
_OURS = (".parquet", ".crc")
_SUCCESS = "_SUCCESS"
_SCRATCH = ".jbod-replay-"


class OutputDir:
    """The output directory of one run.

    Raises:
        ReplayInputError: a URI names no file system that can be reached.
    """

    def __init__(self, path: str, tables: Iterable[Table]) -> None:
        self.tables = tuple(tables)
        self.lock: Lock | None = None
        try:
            self.store = Store(path)
            self.path = str(self.store.local or self.store.source)
            self.scratch = f"{_SCRATCH}{uuid.uuid4().hex}"
            self.scratch_store = Store(f"{self.store.source}/{self.scratch}")
        except (OSError, ValueError) as error:
            raise ReplayInputError(f"output {path} is not writable: {reason_of(error)}") from error

    def put(self, cluster: str, table: Table, rows: pa.Table) -> None:
        """Write all rows of a table that are a cluster's, in its order."""
        with PartWriters(self.scratch_store, cluster, "00000") as writers:
            writers.write(table, rows)

    def clusters(self) -> list[str]:
        """Return the clusters that the tables of the run before this one have."""
        names = self.store.names(STATE) + [
            name for table in self.tables for name in self.store.names(table.name)
        ]
        found = {name for name in names if name.startswith(_OF_CLUSTER)}
        return sorted(name.removeprefix(_OF_CLUSTER) for name in found)

    def prepare(self, inputs: Iterable[str]) -> None:
        """Take the lock and check that tables can be written, before anything expensive is done.

        Raises:
            ReplayInputError: the directory cannot be written, lies in the log, holds something
                else in the place of a table, or another run writes into it.
        """
        for log in inputs:
            if is_inside(self.store.source, log):
                raise ReplayInputError(f"output {self.path} lies inside the metadata log {log}")
        try:
            self.store.make_folder()
            self.lock = take_lock(self.store)
            finish_former(self.store)
            for table in self.tables:
                self._refuse_foreign(table.name)
            self._refuse_foreign_page()
            self._remove_left_overs()
            self.store.make_folder(self.scratch)
        except LockedError as error:
            raise self._in_use(error) from error
        except (OSError, ValueError) as error:
            self._unlock()
            text = f"output {self.path} is not writable: {reason_of(error)}"
            raise ReplayInputError(text) from error
        except BaseException:
            self._unlock()
            raise

    def _in_use(self, error: LockedError) -> ReplayInputError:
        return ReplayInputError(
            f"output {self.path} is in use by another replay ({error}): wait until it ends, or "
            "choose another output"
        )

    def _unlock(self) -> None:
        if self.lock is not None:
            self.lock.release()
            self.lock = None

    def fill(self, clusters: Iterable[str]) -> None:
        """Write a file without rows where a table has none of a cluster, so that it has columns."""
        for table in self.tables:
            known = set(self.scratch_store.names(table.name))
            lacking = [each for each in clusters if f"{_OF_CLUSTER}{each}" not in known]
            fill(self.scratch_store, table, lacking)

    def write_page(self, page: str, name: str = FILE_NAME) -> str:
        """Write a page of the report; returns where it will be."""
        self.scratch_store.make_folder(str(PurePosixPath(name).parent))
        self.scratch_store.write(name, page.encode())
        return f"{self.path}/{name}"

    def put_in_place(self, clusters: Iterable[str] | None = None) -> dict[str, str]:
        """Put everything that was written in its place; returns the folder of each table.

        Args:
            clusters: Those that the output has then; without it, what there is of others stays.
        """
        tables = [table.name for table in self.tables]
        new = [
            f"{folder}/{name}"
            for folder in (*tables, STATE, REPORTS)
            for name in self.scratch_store.names(folder)
        ]
        new += [name for name in (FILE_NAME,) if self.scratch_store.exists(name)]
        gone = [] if clusters is None else self._others(set(clusters))
        manifest = {"scratch": self.scratch, "names": new, "gone": gone}
        assert self.lock is not None
        try:
            self.lock.check()
        except LockedError as error:
            raise self._in_use(error) from error
        self.scratch_store.write(f".{MANIFEST}", json.dumps(manifest).encode())
        self.store.move(f"{self.scratch}/.{MANIFEST}", MANIFEST)
        finish_former(self.store)
        self._unlock()
        return {name: f"{self.path}/{name}" for name in tables}

    def _others(self, kept: set[str]) -> list[str]:
        """Return what the output has of clusters that it has no more."""
        gone = [
            f"{folder}/{name}"
            for folder in (*(table.name for table in self.tables), STATE)
            for name in self.store.names(folder)
            if name.removeprefix(_OF_CLUSTER) not in kept
        ]
        gone += [
            f"{REPORTS}/{name}"
            for name in self.store.names(REPORTS)
            if len(kept) == 1 or name.removesuffix(".html") not in kept
        ]
        return gone

    def clean_up(self) -> None:
        """Remove what a run leaves besides its tables, and let others have the output."""
        try:
            if self.lock is not None and not self.store.exists(MANIFEST):
                self.store.remove(self.scratch)
        finally:
            self._unlock()

    def _remove_left_overs(self) -> None:
        """Remove the scratch folders of runs that were killed: running ones hold the lock."""
        for name in self.store.names():
            if name.startswith(_SCRATCH):
                self.store.remove(name)

    def _refuse_foreign(self, name: str) -> None:
        """Refuse to replace a folder that holds anything but a table."""
        if not self.store.exists(name):
            return
        files = [PurePosixPath(one.name).relative_to(name) for one in self.store.files_in(name)]
        foreign = [f"{name}/{one}" for one in files if not _is_ours(one)]
        if not self.store.is_folder(name):
            foreign = [name]
        if foreign:
            raise ReplayInputError(
                f"{self.path}/{foreign[0]} does not belong to a table of an earlier replay, and a "
                "replay would destroy it or make it wrong: move it away, or choose another output"
            )

    def _refuse_foreign_page(self) -> None:
        """Refuse to replace a file that no replay has written."""
        if self.store.exists(FILE_NAME) and (
            self.store.is_folder(FILE_NAME)
            or MARK.encode() not in self.store.read(FILE_NAME, MARK_WITHIN_BYTES)
        ):
            raise ReplayInputError(
                f"{self.path}/{FILE_NAME} is not the page of an earlier replay: move it away, or "
                "choose another output"
            )


def finish_former(store: Store) -> None:
    """Put in its place what a run has committed; nothing happens if there is nothing left to do.

    Doing it again does no harm: what is no longer in the scratch folder is in its place.
    """
    if not store.exists(MANIFEST):
        return
    found = json.loads(store.read(MANIFEST))
    scratch = found["scratch"]
    old = f"{scratch}/.old"

    def put(name: str) -> None:
        new = f"{scratch}/{name}"
        if not store.exists(new):
            return
        if not store.has_folders:
            # The written file goes with the scratch folder, when all is in its place: to take it
            # away folder by folder is no one step there, and half a folder would be taken for all.
            store.overwrite(new, name)
            return
        if store.exists(name):
            store.remove(f"{old}/{name}")
            store.move(name, f"{old}/{name}")
        store.move(new, name)

    store.do(put, found["names"])
    store.do(store.remove, found["gone"])
    store.remove(MANIFEST)
    store.remove(scratch)


def require_in_place(folder: str) -> None:
    """Check that tables are all of one run.

    Raises:
        ReplayInputError: a run has committed and not put all of them in their places.
    """
    if Store(folder).exists(MANIFEST):
        raise ReplayInputError(
            f"{folder} holds tables of two runs: a replay is putting its tables in place; if it "
            "was killed, start it again"
        )


def write_beside(folder: str, cluster: str, tables: Mapping[Table, pa.Table]) -> None:
    """Write tables of a cluster into a folder, replacing those that are there.

    Raises:
        ReplayInputError: something else is in the way, or the folder cannot be written.
    """
    output = OutputDir(folder, tables)
    output.prepare(())
    try:
        for table, rows in tables.items():
            output.put(cluster, table, in_order(rows, table))
        output.fill([cluster])
        output.put_in_place()
    finally:
        output.clean_up()


def _is_ours(file: PurePosixPath) -> bool:
    """Return whether a file in the folder of a table, or of one of its clusters, is a table's."""
    *above, name = file.parts
    in_place = not above or (len(above) == 1 and above[0].startswith(_OF_CLUSTER))
    return in_place and (name.endswith(_OURS) or name == _SUCCESS)
