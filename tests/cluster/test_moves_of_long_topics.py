"""Moves of replicas whose topic names are so long that names of folders are cut.

A future replica's folder fits 255 bytes up to a name of 214 characters, with the digits of the
partition; what a move leaves in its source has a longer ending: its name is cut from 211 on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbodlab.error_code import ErrorCode
from lab.cluster.folders import make_folder, remove_folder
from tests.cluster.harness import Cluster, made, partitions_in, read_all, wait_for
from tests.cluster.moving import alter, fill

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here"),
]

RECORDS = 256
WHOLE, CUT = "l" * 212, "l" * 209
"""A topic, and one that has just the name that is left of it in its source."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One broker, of whose directories each call can be held."""
    root = make_folder()
    cluster = made(root / "cluster", brokers=1, dirs=2)
    try:
        cluster.broker(1).preload()
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        remove_folder(root)


def put_away(directory: Path) -> bool:
    """Return whether a move has left a replica in a directory."""
    return any(".moved" in path.name for path in directory.iterdir())


@pytest.mark.parametrize("topics", [[WHOLE], [WHOLE, CUT]])
def test_a_copy_that_was_lost_gives_way_to_what_it_was_moved_from_whatever_the_name(
    cluster: Cluster, topics: list[str]
) -> None:
    broker = cluster.broker(1)
    for topic in topics:
        cluster.create_topic(topic, 1, 1)
    fill(cluster, WHOLE, 1)
    source = next(path for path in broker.paths if partitions_in(path, WHOLE))
    target = next(path for path in broker.paths if path != source)
    held = broker.log_dir_at(target).fails("hang", calls="sync")
    assert alter(cluster, 1, {(WHOLE, 0): target}) == {ErrorCode.NONE}
    wait_for("the copy has taken the place of its replica", lambda: put_away(source))

    # The power is lost, and with it what the disk of the copy was not asked to sync.
    broker.kill()
    held.heal()
    for segment in (target / f"{WHOLE}-0").glob("*.log"):
        segment.write_bytes(b"")
    broker.start()
    cluster.wait_served(broker)

    values = read_all(cluster.bootstrap, WHOLE, 1)[0]
    assert [offset for offset, _ in values] == list(range(RECORDS))
    assert not put_away(source)
    assert all(read_all(cluster.bootstrap, topic, 1) for topic in topics)
