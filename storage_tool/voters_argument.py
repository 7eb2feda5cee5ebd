"""`--standalone` and `--initial-controllers`: the first voters of a quorum (KIP-853).

Source: `org.apache.kafka.raft.DynamicVoters`, `org.apache.kafka.metadata.storage.Formatter`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from jbodlab.config.node_config import NodeConfig
from jbodlab.metadata.log.formatting import FirstVoters
from jbodlab.metadata.records.control_records import KRaftVoter, KRaftVoterEndpoint
from jbodlab.raft.batches import quorum_records
from jbodlab.raft.voters import VERSIONS, VoterSet
from jbodlab.vocabulary import directory_id, kafka_uuid
from jbodlab.vocabulary.errors import FormatError, QuorumViolationError
from jbodlab.vocabulary.ids import DirectoryId

_VOTER = re.compile(r"([0-9]+)@(\[[0-9A-Fa-f:.%]+\]|[^:/@\[\]]+):([0-9]+):([A-Za-z0-9_-]+)")

LEVEL = 1
"""The level of kraft.version that has voters in the log."""


def standalone(config: NodeConfig, used: Collection[DirectoryId]) -> FirstVoters:
    """Return this controller as the only voter, with a new directory id.

    Args:
        config: The controller's.
        used: Ids of its other directories.
    """
    own = directory_id.random_directory_id(os.urandom)
    while own in used:
        own = directory_id.random_directory_id(os.urandom)
    endpoints = tuple(
        KRaftVoterEndpoint(name=each.name, host=each.host, port=each.port)
        for each in config.advertised_controllers
    )
    return _first(config, VoterSet.of([_voter(config.node_id, own, endpoints)]))


def initial_controllers(config: NodeConfig, text: str) -> FirstVoters:
    """Return the voters of a list.

    Raises:
        FormatError: an element is malformed, or two have the same id.
    """
    name = config.controller_listener_names[0].upper()
    try:
        return _first(config, VoterSet.of(_parsed(word, name) for word in text.split(",")))
    except QuorumViolationError:
        raise FormatError(f"--initial-controllers {text}: a node id occurs twice.") from None


def _parsed(word: str, listener_name: str) -> KRaftVoter:
    match = _VOTER.fullmatch(word.strip())
    try:
        if match is None:
            raise ValueError
        node_id, host, port = int(match[1]), match[2].strip("[]"), int(match[3])
        own = DirectoryId(kafka_uuid.parse(match[4]))
        if not 0 < port < 1 << 16 or directory_id.is_reserved(own):
            raise ValueError
    except ValueError:
        raise FormatError(
            f"--initial-controllers {word.strip()}: expected id@host:port:directory-id."
        ) from None
    endpoint = KRaftVoterEndpoint(name=listener_name, host=host, port=port)
    return _voter(node_id, own, (endpoint,))


def _voter(node_id: int, own: DirectoryId, endpoints: tuple[KRaftVoterEndpoint, ...]) -> KRaftVoter:
    return KRaftVoter(
        voter_id=node_id,
        voter_directory_id=own,
        endpoints=endpoints,
        k_raft_version_feature=VERSIONS,
    )


def _first(config: NodeConfig, voters: VoterSet) -> FirstVoters:
    own = voters.voter(config.node_id)
    return FirstVoters(
        directory=Path(config.metadata_log_dir),
        directory_id=None if own is None else DirectoryId(own.voter_directory_id),
        records=quorum_records(voters, LEVEL),
    )
