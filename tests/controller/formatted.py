"""Formatted metadata directories, and property files of controllers, for tests."""

from __future__ import annotations

from pathlib import Path

from controller.config import ControllerConfig, controller_config
from jbodlab.metadata.log.snapshots import write_bootstrap
from jbodlab.metadata.records.config_records import FeatureLevelRecord
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import MetaProperties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.ids import DirectoryId
from tests.builders import CLUSTER_ID, named_uuid

NODE_ID = 100


def format_dir(
    directory: Path, *, level: int | None = 30, node_id: int = NODE_ID, cluster_id: str = CLUSTER_ID
) -> Path:
    """Make a metadata directory as the format tool leaves it; without bootstrap if no level."""
    directory.mkdir(parents=True, exist_ok=True)
    meta = MetaProperties(
        cluster_id=cluster_id, node_id=node_id, directory_id=DirectoryId(named_uuid("metadata"))
    )
    meta_properties.write(PosixFileSystem(), directory, meta)
    if level is not None:
        record = FeatureLevelRecord(name="metadata.version", feature_level=level)
        write_bootstrap(
            directory / "bootstrap.checkpoint", [VersionedRecord(record, 0)], created_ms=0
        )
    return directory


def properties_of(directory: Path, port: int, **settings: str) -> dict[str, str]:
    return {
        "process.roles": "controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "log.dirs": str(directory),
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


def config_of(directory: Path, port: int = 9093, **settings: str) -> ControllerConfig:
    return controller_config(properties_of(directory, port, **settings))[0]
