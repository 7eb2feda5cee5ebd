"""The thread that watches a cluster."""

from __future__ import annotations

from lab.rehearsal.observer import Observer


def test_one_that_never_began_is_stopped_like_any_other() -> None:
    observer = Observer([], {}, None, None)

    observer.stop()

    assert not observer.is_alive()
