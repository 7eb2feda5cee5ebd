"""Runs that put tables in their places, and end in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.job.known_inputs import folder_of
from analytics.job.output import MANIFEST, OutputDir
from analytics.store.store import Store
from analytics.tables.catalog import PARTITIONS, TOPIC_HISTORY, TOPICS

TABLES = (TOPICS, PARTITIONS, TOPIC_HISTORY)


class Killed(BaseException):
    """An error in place of the end of the process."""


def written(folder: Path | str, text: str) -> OutputDir:
    """Write tables that are not in their places yet."""
    output = OutputDir(str(folder), TABLES)
    output.prepare(())
    for table in TABLES:
        output.scratch_store.make_folder(table.folder("one"))
        output.scratch_store.write(f"{table.folder('one')}/part-{text}.parquet", text.encode())
    output.scratch_store.make_folder(folder_of("one"))
    output.scratch_store.write(f"{folder_of('one')}/inputs.json", text.encode())
    return output


def content(folder: Path | str) -> set[bytes]:
    """Return what the files of the tables hold, and what they are of."""
    store = Store(str(folder))
    names = [table.name for table in TABLES] + [folder_of("one")]
    return {store.read(one.name) for name in names for one in store.files_in(name)}


def killed_at(step: int, do: Callable[..., None]) -> Callable[..., None]:
    """Return a method of stores that ends the process at the call of this number."""
    calls = 0

    def counted(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == step:
            raise Killed
        do(*arguments)

    return counted


def kill_commit(output: OutputDir, method: str, do: Callable[..., None]) -> bool:
    """Commit with another method of stores; returns whether that ended the process."""
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, method, do)
            output.put_in_place(["one"])
    except Killed:
        # So does the end of a process, with the store's own methods.
        assert output.lock is not None
        output.lock.release()
        return True
    return False


def begin_another(folder: Path | str) -> None:
    """Begin the next run, which does what a killed one has left to do, and end it."""
    again = OutputDir(str(folder), TABLES)
    again.prepare(())
    again.clean_up()
    assert not [name for name in Store(str(folder)).names() if name.startswith(".jbod-replay-")]
    assert not Store(str(folder)).exists(MANIFEST)
