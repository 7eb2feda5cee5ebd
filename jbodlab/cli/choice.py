"""Which cluster a command is about, where its command line does not say."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from jbodlab.cli.command import About, Command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.vocabulary.errors import JbodlabError

if TYPE_CHECKING:
    from jbodlab.cli.lab_state import ClusterState

DEFAULT_CLUSTER = "default"
"""Name of the cluster that `jbodlab up` starts where none is named."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")


class NoClusterError(JbodlabError):
    """No cluster of this machine can be chosen."""


def cluster_name(text: str) -> str:
    """Return the name of a cluster, as an argument's type.

    Raises:
        ArgumentTypeError: a cluster cannot have this name.
    """
    if not _NAME.fullmatch(text):
        raise ArgumentTypeError(f"expected at most 41 letters, digits, - and _, got {text!r}")
    return text


def choose(command: Command, options: Namespace, output: Output) -> None:
    """Complete `options.cluster` or `options.bootstrap_server`, and say what was chosen.

    Raises:
        NoClusterError: none runs, several do, or the named one does not.
        UsageError: both options are given.
    """
    match command.about:
        case About.NOTHING | About.EITHER:
            return
        case About.NEW:
            options.cluster = options.cluster or DEFAULT_CLUSTER
        case About.MACHINE:
            options.cluster = machine_cluster(options.cluster, output)
        case About.SERVERS:
            _choose_servers(options, output)


def machine_cluster(named: str | None, output: Output) -> str:
    """Return the name of a cluster of this machine, and say it where it was not given.

    Args:
        named: The value of `--cluster`. Without it, the only cluster that runs is chosen; where
            none runs, the only one that was started and not removed.
        output: Where the choice is said.

    Raises:
        NoClusterError: there is none, or several are.
    """
    if named is not None:
        return named
    running, known = _clusters()
    chosen = _only_one(
        running or known, "no cluster runs on this machine; start one with `jbodlab up`"
    )
    output.note(f"cluster {chosen.name} at {chosen.bootstrap}")
    return chosen.name


def running_servers(named: str | None, output: Output) -> ClusterState | None:
    """Return a cluster of this machine; None if it does not run.

    Args:
        named: The value of `--cluster`; without it, the only cluster that runs is chosen.
        output: Where the choice is said.

    Raises:
        NoClusterError: several run.
    """
    running, _ = _clusters()
    if named is not None:
        running = [cluster for cluster in running if cluster.name == named]
    if not running:
        return None
    chosen = _only_one(running, "")
    if named is None:
        output.note(f"cluster {chosen.name} at {chosen.bootstrap}")
    return chosen


def _choose_servers(options: Namespace, output: Output) -> None:
    if options.bootstrap_server is not None:
        if options.cluster is not None:
            raise UsageError("--cluster and --bootstrap-server exclude each other")
        return
    running, _ = _clusters()
    if options.cluster is None:
        chosen = _only_one(
            running,
            "no cluster runs on this machine; start one with `jbodlab up`, or name the address of "
            "another one with --bootstrap-server",
        )
        output.note(f"cluster {chosen.name} at {chosen.bootstrap}")
    else:
        named = [cluster for cluster in running if cluster.name == options.cluster]
        if not named:
            raise NoClusterError(f"cluster {options.cluster} does not run on this machine")
        (chosen,) = named
    options.cluster, options.bootstrap_server = chosen.name, chosen.bootstrap
    use_client_file(options, chosen)


def use_client_file(options: Namespace, cluster: ClusterState) -> None:
    """Complete `options.command_config` for a cluster that is not open."""
    if options.command_config is None:
        options.command_config = cluster.brokers[0].client_file or None


def _only_one(clusters: list[ClusterState], none: str) -> ClusterState:
    if not clusters:
        raise NoClusterError(none)
    if len(clusters) > 1:
        names = ", ".join(cluster.name for cluster in clusters)
        raise NoClusterError(
            f"several clusters are on this machine ({names}); choose one with --cluster"
        )
    return clusters[0]


def _clusters() -> tuple[list[ClusterState], list[ClusterState]]:
    """Return the clusters of this user that run, and all that are written down."""
    from jbodlab.cli import lab_state

    known = lab_state.known_clusters(os.environ, os.geteuid())
    return [cluster for cluster in known if lab_state.running_nodes(cluster)], known
