"""The lock of an output directory, on a disk and as a lease elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics.store import lock
from analytics.store.lock import LOCK, Lock, LockedError, take_lock
from analytics.store.store import Store


@pytest.fixture
def lease_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A folder that is reached as one of another machine; a file is created exclusively."""
    monkeypatch.setattr("analytics.store.store.local_path", lambda source: None)

    def create(store: Store, name: str, content: bytes) -> bool:
        try:
            with (tmp_path / name).open("xb") as file:
                return bool(file.write(content))
        except FileExistsError:
            return False

    monkeypatch.setattr(lock, "create", create)
    return Store(tmp_path.as_uri())


def refused(store: Store) -> str:
    with pytest.raises(LockedError) as error:
        take_lock(store)
    return str(error.value)


def test_a_lease_is_refused_until_it_is_released(lease_store: Store) -> None:
    first = take_lock(lease_store)
    assert refused(lease_store).startswith("process ")
    first.check()
    first.release()

    take_lock(lease_store).release()

    assert lease_store.names() == []


def test_of_two_runs_that_see_no_lease_one_gets_it(
    lease_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = lock.create
    others: list[Lock] = []

    def later(store: Store, name: str, content: bytes) -> bool:
        monkeypatch.setattr(lock, "create", create)
        others.append(take_lock(store))
        return create(store, name, content)

    monkeypatch.setattr(lock, "create", later)

    refused(lease_store)

    others[0].check()
    others[0].release()


def test_a_lease_that_nobody_renews_is_taken_over(
    lease_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = take_lock(lease_store)
    with monkeypatch.context() as patch:
        patch.setattr(lock, "LEASE_S", -1.0)
        second = take_lock(lease_store)
        with pytest.raises(LockedError, match="did not renew its lock in time"):
            killed.check()
    assert lease_store.names() == [f"{LOCK}-1", f"{LOCK}-2"]
    second.check()
    second.release()
    assert lease_store.names() == []
    killed.release()


def test_a_run_renews_its_lease(lease_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "RENEWALS", 60_000)
    own = take_lock(lease_store)
    file = f"{LOCK}-1"
    begun = lease_store.file(file)
    assert begun is not None

    while (now := lease_store.file(file)) is None or now.changed_ns == begun.changed_ns:
        pass

    own.release()
