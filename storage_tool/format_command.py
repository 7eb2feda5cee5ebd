"""`format`: give each directory of a node its ids and the first records of the metadata log.

All checks come before the first write, so that no directory is formatted if a check fails. An
interrupted run can be repeated with `--ignore-formatted`.

Source: `org.apache.kafka.metadata.storage.Formatter`, `kafka.tools.StorageTool`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jbodlab.config import node_config
from jbodlab.config.node_config import NodeConfig
from jbodlab.metadata.records.security_records import UserScramCredentialRecord
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.meta_properties import Ensemble
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.errors import FormatError
from jbodlab.vocabulary.ids import DirectoryId
from storage_tool import features, node_file, scram_argument
from storage_tool.features import InitialLevels
from storage_tool.node_file import NodeFile

if TYPE_CHECKING:
    from jbodlab.metadata.log.formatting import FirstVoters


def run(options: argparse.Namespace) -> int:
    """Format the directories of a node; returns the exit code.

    Raises:
        FormatError: a check or a write failed.
        ConfigError: the property file is not that of a node that could start.
    """
    node = node_file.read(options.config)
    _check_options(options, node)
    config = node_config.node_config(node.values)
    levels = features.initial_levels(
        options.release_version,
        options.feature,
        node.values.properties.get("inter.broker.protocol.version"),
        is_dynamic="controller" in config.roles and not config.voters,
    )
    credentials = scram_argument.credentials(options.add_scram)
    ensemble = _read(config, options.cluster_id)
    if ensemble.normal and not options.ignore_formatted:
        raise FormatError(
            f"Log directory {next(iter(ensemble.normal))} is already formatted. Use "
            "--ignore-formatted to ignore this directory and format the others."
        )
    if not ensemble.empty:
        print("All of the log directories are already formatted.")
        return 0
    used = {meta.directory_id for meta in ensemble.normal.values() if meta.directory_id}
    first_voters = _first_voters(options, config, used)
    _format_empty(ensemble, config, options.cluster_id, levels, credentials, used, first_voters)
    return 0


def _first_voters(
    options: argparse.Namespace, config: NodeConfig, used: set[DirectoryId]
) -> FirstVoters | None:
    from storage_tool import voters_argument

    if options.standalone:
        return voters_argument.standalone(config, used)
    if options.initial_controllers is not None:
        return voters_argument.initial_controllers(config, options.initial_controllers)
    return None


def _check_options(options: argparse.Namespace, node: NodeFile) -> None:
    if not node.values.words("process.roles"):
        raise FormatError(
            "The kafka configuration file appears to be for a legacy cluster. Formatting is only "
            "supported for clusters in KRaft mode."
        )
    roles = node_config.node_roles(node.values)
    if options.standalone and "controller" not in roles:
        raise FormatError("You can only use --standalone on a controller.")
    names_voters = options.standalone or options.initial_controllers is not None
    if node.values.words(node_config.VOTERS):
        if names_voters:
            raise FormatError(
                "controller.quorum.voters names a static quorum: remove it from the file, or "
                "format without --standalone and --initial-controllers."
            )
    elif "controller" in roles and not (names_voters or options.no_initial_controllers):
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            "of the following: --standalone, --initial-controllers, or --no-initial-controllers."
        )


def _read(config: NodeConfig, cluster_id: str) -> Ensemble:
    """Read the directories, print those that cannot be read, and check that their ids agree."""
    ensemble = meta_properties.read_ensemble(
        PosixFileSystem(),
        [Path(directory) for directory in config.log_dirs],
        Path(config.metadata_log_dir),
    )
    for directory in ensemble.failed:
        print(f"I/O error trying to read log directory {directory}. Ignoring...", flush=True)
    if not ensemble.empty and not ensemble.normal:
        raise FormatError("No available log directories to format.")
    meta_properties.verify_ensemble(
        ensemble, node_id=config.node_id, cluster_id=cluster_id, require_formatted=False
    )
    return ensemble


def _format_empty(
    ensemble: Ensemble,
    config: NodeConfig,
    cluster_id: str,
    levels: InitialLevels,
    credentials: Sequence[UserScramCredentialRecord],
    used: set[DirectoryId],
    first_voters: FirstVoters | None,
) -> None:
    from jbodlab.metadata.log.formatting import format_directories
    from jbodlab.metadata.records import metadata_version

    def tell(directory: Path) -> None:
        kind = "metadata" if directory == ensemble.metadata_log_dir else "data"
        if first_voters is not None and directory == first_voters.directory:
            is_voter = first_voters.directory_id is not None
            kind = "dynamic metadata voter" if is_voter else "dynamic metadata"
        print(
            f"Formatting {kind} directory {directory} with metadata.version "
            f"{metadata_version.name_of(levels.metadata_version)}.",
            flush=True,
        )

    format_directories(
        ensemble.empty,
        cluster_id=cluster_id,
        node_id=config.node_id,
        level=levels.metadata_version,
        features=levels.others,
        security=credentials,
        used=used,
        first_voters=first_voters,
        tell=tell,
    )
