from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.controller_link.metadata_copy import MetadataCopy
from jbodlab.metadata.log.settings import MetadataLogSettings
from jbodlab.metadata.log.snapshots import snapshot_bytes, snapshot_name
from tests.broker.disks import make_log_dirs

CONTENT = snapshot_bytes([], epoch=1, timestamp_ms=0, created_ms=0)


@pytest.mark.parametrize(
    "step",
    [
        lambda copy: copy.latest_snapshot(),
        lambda copy: copy.clean(0),
        lambda copy: copy.drop(),
        lambda copy: copy.replace_by_snapshot(CONTENT, 9, 1),
    ],
    ids=["read", "clean", "drop", "replace"],
)
async def test_a_former_life_of_the_directory_changes_no_snapshot(
    tmp_path: Path, step: Callable[[MetadataCopy], object]
) -> None:
    log_dirs = make_log_dirs(tmp_path, 1)
    log_dir = log_dirs.metadata_dir
    settings = MetadataLogSettings()
    copy = MetadataCopy(log_dir.path, log_dir.fs, settings)
    for name in (snapshot_name(5, 1), snapshot_name(7, 1)):
        (copy.directory / name).write_bytes(b"damaged")
    before = content(copy.directory)
    log_dir.go_offline("it hung")

    with pytest.raises(OSError, match="no longer uses"):
        step(copy)

    assert content(copy.directory) == before
    log_dirs.stop()
    assert len(before) > 2


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}
