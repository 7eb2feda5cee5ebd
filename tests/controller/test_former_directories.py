"""Directories of a controller whose metadata log had a storage engine of its own.

`fixtures/controller-directories` has two of them, from histories of `simulation/sole_controller`:
one that was stopped, and one whose process was killed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from controller.metadata_dir import open_metadata_dir
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.log.batches import read_batches
from jbodlab.metadata.log.snapshots import latest_snapshot
from tests.controller.formatted import config_of
from tests.controller.shell import led

FIXTURES = Path(__file__).parents[1] / "fixtures" / "controller-directories"
KEPT = {"metadata_max_retention_ms": "-1"}


def bytes_of(directory: Path, *suffixes: str) -> dict[str, bytes]:
    """Return the files of the log with some suffixes."""
    folder = directory / "__cluster_metadata-0"
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in suffixes}


def whole(directory: Path) -> MetadataLoader:
    """Return what all segments lead to, without any snapshot."""
    loader = MetadataLoader()
    for _, data in sorted(bytes_of(directory, ".log").items()):
        for batch in read_batches(data):
            loader.load(batch)
    return loader


@pytest.mark.parametrize(("end", "epoch", "segments"), [("closed", 2, 6), ("killed", 4, 8)])
def test_a_directory_of_a_former_controller_opens_and_goes_on(
    tmp_path: Path, end: str, epoch: int, segments: int
) -> None:
    shutil.copytree(FIXTURES / end, tmp_path, dirs_exist_ok=True)
    before, expected = bytes_of(tmp_path, ".log", "", ".index"), whole(tmp_path)
    assert len(bytes_of(tmp_path, ".log")) == segments
    assert latest_snapshot(tmp_path / "__cluster_metadata-0") is not None

    opened = open_metadata_dir(config_of(tmp_path, **KEPT))
    opened.log.close()
    opened.lock.close()

    assert opened.loader.image == expected.image
    assert (opened.log.start_offset, opened.log.end_offset) == (0, expected.next_offset)
    assert opened.epoch == epoch
    after = bytes_of(tmp_path, ".log", "", ".index")
    after.pop(".clean-close")
    before.pop(".clean-close", None)
    assert after == before
    with led(tmp_path, **KEPT) as it:
        assert it.controller.epoch == epoch + 1
        assert it.image.topics == expected.image.topics
    assert whole(tmp_path).image == it.image
