"""The same store on a server that speaks S3: no folders to rename, and a commit all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analytics.store.store import Store
from tests.analytics.commits import (
    TABLES,
    Killed,
    assert_does_what_a_replay_needs,
    assert_found_by_a_pattern,
    assert_old_or_new,
    assert_one_run_at_a_time,
    begin_another,
    content,
    kill_commit,
    written,
)
from tests.analytics.s3_server import NoServerError, S3Server, s3_server
from tests.kafka.jars import NoKafkaError

pytestmark = pytest.mark.process


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


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_run_that_is_killed_on_s3_leaves_the_old_tables_or_the_new_ones(
    server: S3Server, step: int
) -> None:
    assert assert_old_or_new(f"s3a://{server.bucket}/killed-{step}", "_copy", step)


@pytest.mark.parametrize("step", range(1, 5))
def test_a_run_that_is_killed_while_s3_removes_leaves_whole_tables(
    server: S3Server, step: int
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

    assert kill_commit(output, "remove", half)
    begin_another(folder)

    assert content(folder) == {b"new", b"2"}
    assert all(Store(folder).exists(part) for part in parts)


def test_a_second_run_into_one_output_on_s3_is_refused(server: S3Server) -> None:
    assert_one_run_at_a_time(f"s3a://{server.bucket}/locked")


def test_logs_are_found_by_a_pattern_on_s3(server: S3Server) -> None:
    assert_found_by_a_pattern(f"s3a://{server.bucket}/in")
