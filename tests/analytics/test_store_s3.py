"""The same store on a server that speaks S3: no folders to rename, and a commit all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analytics.job.output import MANIFEST, OutputDir
from analytics.read.log_copies import find_copies
from analytics.store.patterns import expand
from analytics.store.store import Store
from tests.analytics.s3_server import NoServerError, S3Server, s3_server
from tests.analytics.test_lock import assert_one_run_at_a_time
from tests.analytics.test_store import (
    TABLES,
    Killed,
    assert_does_what_a_replay_needs,
    ended,
    killed_at,
    written,
)
from tests.kafka.jars import NoKafkaError

pytestmark = pytest.mark.process

METADATA = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as running, pytest.MonkeyPatch.context() as m:
            for name, value in running.variables.items():
                m.setenv(name, value)
            yield running
    except (NoServerError, NoKafkaError) as error:
        pytest.skip(str(error))


def test_a_store_on_s3_does_what_a_replay_needs_of_folders(server: S3Server) -> None:
    assert_does_what_a_replay_needs(Store(f"s3a://{server.bucket}/ops"))


def content(store: Store) -> set[bytes]:
    return {store.read(one.name) for table in TABLES for one in store.files_in(table.name)}


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_run_that_is_killed_on_s3_leaves_the_old_tables_or_the_new_ones(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder = f"s3a://{server.bucket}/killed-{step}"
    written(folder, "old").put_in_place(["one"])
    output = written(folder, "new")
    with monkeypatch.context() as patch:
        patch.setattr(Store, "_copy", killed_at(step, Store._copy))
        with pytest.raises(Killed):
            output.put_in_place(["one"])
    ended(output)

    again = OutputDir(folder, TABLES)
    again.prepare(())
    again.clean_up()

    store = Store(folder)
    assert content(store) == {b"new" if step > 1 else b"old"}
    assert not store.exists(MANIFEST)


@pytest.mark.parametrize("step", range(1, 5))
def test_a_run_that_is_killed_while_s3_removes_leaves_whole_tables(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    folder = f"s3a://{server.bucket}/half-removed-{step}"
    written(folder, "old").put_in_place(["one"])
    output = written(folder, "new")
    parts = [f"{table.folder('one')}/part-2.parquet" for table in TABLES]
    for part in parts:
        output.scratch_store.write(part, b"2")
    calls = 0
    remove = Store.remove

    def half(store: Store, name: str) -> None:
        """Remove one file of those that there are."""
        nonlocal calls
        calls += 1
        if calls < step:
            remove(store, name)
            return
        for one in store.files_in(name)[:1]:
            remove(store, one.name)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "remove", half)
        with pytest.raises(Killed):
            output.put_in_place(["one"])
    ended(output)

    again = OutputDir(folder, TABLES)
    again.prepare(())
    again.clean_up()

    store = Store(folder)
    assert content(store) == {b"new", b"2"}
    assert all(store.exists(part) for part in parts)


def test_a_second_run_into_one_output_on_s3_is_refused(server: S3Server) -> None:
    assert_one_run_at_a_time(f"s3a://{server.bucket}/locked")


def test_logs_are_found_by_a_pattern_on_s3(server: S3Server) -> None:
    store = Store(f"s3a://{server.bucket}/in")
    for name in ("eu", "us"):
        store.write(f"{name}/kraft/{METADATA}/00000000000000000000.log", b"12345")
        store.write(f"{name}/kraft/meta.properties", f"cluster.id=id-{name}\n".encode())

    found = expand(f"s3a://{server.bucket}/in/*/kraft")

    assert found == tuple(f"s3a://{server.bucket}/in/{name}/kraft" for name in ("eu", "us"))
    copies = [copy for place in found for copy in find_copies(place)]
    assert [(copy.cluster_id, copy.size_bytes) for copy in copies] == [("id-eu", 5), ("id-us", 5)]
    assert copies[0].folder == f"s3a://{server.bucket}/in/eu/kraft/{METADATA}"
