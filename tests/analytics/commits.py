"""Runs that put tables in their places, and end in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analytics.errors import ReplayInputError
from analytics.job.known_inputs import folder_of
from analytics.job.output import MANIFEST, OutputDir
from analytics.read.log_copies import find_copies
from analytics.store.patterns import expand
from analytics.store.store import Store
from analytics.tables.catalog import PARTITIONS, TOPIC_HISTORY, TOPICS

TABLES = (TOPICS, PARTITIONS, TOPIC_HISTORY)
METADATA = "__cluster_metadata-0"


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


def assert_old_or_new(folder: Path | str, method: str, step: int) -> bool:
    """Kill a commit at a call of a method of stores; returns whether it came so far."""
    written(folder, "old").put_in_place(["one"])

    was_killed = kill_commit(
        written(folder, "new"), method, killed_at(step, getattr(Store, method))
    )
    begin_another(folder)

    assert content(folder) == {b"new" if step > 1 else b"old"}
    return was_killed


def assert_does_what_a_replay_needs(store: Store) -> None:
    """Make, move, read and remove."""
    assert (store.exists(), store.names(), store.is_folder("a")) == (False, [], False)
    store.make_folder("a/b")
    store.write("a/b/one", b"12345")
    store.write("a/two", b"12345")
    assert (store.read("a/two"), store.read("a/two", 2)) == (b"12345", b"12")
    store.move("a", "c")
    assert (store.names(), store.names("c"), store.names("c/b")) == (["c"], ["b", "two"], ["one"])
    store.remove("c")
    store.remove("c")
    assert not store.exists("c")
    assert store.files_in() == []


def assert_one_run_at_a_time(folder: str) -> None:
    """Begin a run while another one has the folder."""
    first, second = (OutputDir(folder, [TOPICS]) for _ in range(2))
    first.prepare(())
    with pytest.raises(ReplayInputError, match=r"is in use by another replay \(process "):
        second.prepare(())
    first.put_in_place(["one"])
    second.prepare(())
    second.clean_up()
    assert not [name for name in Store(folder).names() if name.startswith(".jbod-replay-")]


def assert_found_by_a_pattern(root: str) -> str:
    """Find logs of two clusters by a pattern; returns the folder of the first one."""
    for name in ("eu", "us"):
        store = Store(f"{root}/{name}/kraft")
        store.make_folder(METADATA)
        store.write(f"{METADATA}/00000000000000000000.log", b"12345")
        store.write("meta.properties", f"cluster.id=id-{name}\n".encode())

    found = expand(f"{root}/*/kraft")

    assert found == tuple(f"{root}/{name}/kraft" for name in ("eu", "us"))
    copies = [copy for place in found for copy in find_copies(place)]
    assert [(copy.cluster_id, copy.size_bytes) for copy in copies] == [("id-eu", 5), ("id-us", 5)]
    assert copies[0].folder == f"{root}/eu/kraft/{METADATA}"
    return copies[0].folder
