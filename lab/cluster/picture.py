"""The state of a running cluster, from its brokers' answers, and which place is which."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from fault_injection.closed_cluster import SECURITY
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import BrokerPicture, ClusterPicture
from jbodlab.picture.places import Place
from jbodlab.storage.directory import meta_properties
from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.vocabulary.addresses import address_text
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import DirectoryId
from lab.cluster import questions
from lab.cluster.spec import spec_of


def place_of(seen: ClusterPicture, path: Path) -> str:
    """Return the name of a path: a directory of a broker, a broker, or the path itself.

    A path of users is the folder beside those of the brokers, and is the whole cluster's.
    """
    for one in seen.brokers:
        if path == one.folder.parent / SECURITY:
            return "cluster"
        if one.folder == path:
            return f"broker-{one.broker_id}"
        if (number := one.paths.get(str(path))) is not None:
            return f"broker-{one.broker_id}/{number}"
    return str(path)


async def read(state: ClusterState, timeout_s: float) -> ClusterPicture:
    """Ask every broker of a running cluster; eligible leader replicas are in its log only."""
    nodes, are_ours = state.brokers, not spec_of(state).runs.is_kafka
    found = await asyncio.gather(
        *(questions.ask_log_dirs(node, timeout_s, are_ours=are_ours) for node in nodes)
    )
    answers = dict(zip((node.node_id for node in nodes), found, strict=True))
    view = None
    for node in nodes:
        if view is None and answers[node.node_id] is not None:
            view = await questions.ask_cluster_view(node, timeout_s)
    return ClusterPicture(
        brokers=[of_node(node, answers[node.node_id]) for node in nodes],
        listed=view.broker_ids if view else None,
        partitions=dict(sorted(view.partitions.items())) if view else {},
    )


def of_node(
    node: NodeState,
    log_dirs: Sequence[DescribedLogDir] | None,
    paths: Mapping[str, int] | None = None,
    *,
    serves: bool = False,
    before: Sequence[DescribedLogDir] | None = None,
) -> BrokerPicture:
    """Return a broker by what it said last; `paths` where its file does not tell them."""
    named = {path: number for number, path in enumerate(node.log_dirs, start=1)}
    return BrokerPicture(
        broker_id=node.node_id,
        address=address_text(node.host, node.port),
        folder=node.folder,
        paths=named if paths is None else paths,
        log_dirs=log_dirs,
        serves=serves,
        before=before,
    )


def places_of(brokers: Sequence[NodeState]) -> dict[DirectoryId, Place]:
    """Return the log directories of brokers by their ids, as far as they can be read."""
    found = {}
    for node in brokers:
        for number, path in enumerate(node.log_dirs, start=1):
            with contextlib.suppress(OSError, JbodlabError):
                one = meta_properties.read(PosixFileSystem(), Path(path)).directory_id
                if one is not None:
                    found[one] = Place(node.node_id, number)
    return found
