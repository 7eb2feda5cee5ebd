"""The log that measurements are made on is one that a cluster could have written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analytics.read.layout import read_layout
from bench.metadata_log_generator import BROKERS, DIRECTORIES, generate
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.log.batches import read_batches
from tests.analytics.source_rows import agreed_rows

RECORDS = 20_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("generated")
    writer = generate(root, RECORDS, segment_bytes=400_000)
    assert RECORDS <= writer.offset < 2 * RECORDS
    return writer.directory


def test_every_record_fits_the_state_before_it(directory: Path) -> None:
    loader = MetadataLoader()
    expected = 0
    sizes = Counter[int]()
    for path in sorted(directory.glob("*.log")):
        assert int(path.stem) == expected
        for batch in read_batches(path.read_bytes()):
            assert batch.base_offset == expected
            expected = batch.last_offset + 1
            sizes[len(batch.records)] += 1
            loader.load(batch)

    image = loader.image
    partitions = [p for topic in image.topics.by_id.values() for p in topic.partitions.values()]
    assert len(image.cluster.brokers) == BROKERS
    assert {len(broker.directories) for broker in image.cluster.brokers.values()} == {DIRECTORIES}
    assert all(set(p.isr) == set(p.replicas) and len(p.replicas) == 3 for p in partitions)
    assert all(p.leader == p.replicas[0] and not p.adding_replicas for p in partitions)
    assert min(sizes) == 1
    assert max(sizes) > 100


def test_it_is_read_without_a_problem(directory: Path) -> None:
    rows = agreed_rows(read_layout(directory, split_bytes=100_000))

    assert {row.problem for row in rows} == {None}
    assert len({row.type for row in rows}) == 10


def test_the_same_seed_gives_the_same_log(tmp_path: Path) -> None:
    logs = [generate(tmp_path / name, 2000).directory for name in ("a", "b")]

    one, two = ([path.read_bytes() for path in sorted(log.iterdir())] for log in logs)
    assert one == two
