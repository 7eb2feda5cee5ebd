"""Which cluster a command is about, where its command line does not say."""

from __future__ import annotations

import os
from argparse import Namespace

from jbodlab.cli.command import About, Command
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.errors import JbodlabError


class NoClusterError(JbodlabError):
    """No cluster of this machine can be chosen."""


def choose(command: Command, options: Namespace, output: Output) -> None:
    """Complete `options.cluster` or `options.bootstrap_server`, and say what was chosen.

    Raises:
        NoClusterError: none runs, several do, or the named one does not.
        UsageError: both options are given.
    """
    match command.about:
        case About.NOTHING:
            return
        case About.NEW:
            from jbodlab import lab_state

            options.cluster = options.cluster or lab_state.DEFAULT_NAME
        case About.MACHINE:
            if options.cluster is None:
                options.cluster = _only_one(output)
        case About.SERVERS:
            _choose_servers(options, output)


def _choose_servers(options: Namespace, output: Output) -> None:
    if options.bootstrap_server is not None:
        if options.cluster is not None:
            raise UsageError("--cluster and --bootstrap-server exclude each other")
        return
    running = _running()
    name = options.cluster if options.cluster is not None else _only_one(output)
    if name not in running:
        raise NoClusterError(f"cluster {name} does not run on this machine")
    options.bootstrap_server = running[name]


def _only_one(output: Output) -> str:
    running = _running()
    if not running:
        raise NoClusterError(
            "no cluster runs on this machine; start one with `jbodlab up`, or name another one's "
            "address with --bootstrap-server"
        )
    if len(running) > 1:
        raise NoClusterError(
            f"several clusters run on this machine ({', '.join(running)}); choose one with "
            "--cluster"
        )
    ((name, bootstrap),) = running.items()
    output.note(f"cluster {name} at {bootstrap}")
    return name


def _running() -> dict[str, str]:
    from jbodlab import lab_state

    clusters = lab_state.running_clusters(os.environ, os.geteuid())
    return {cluster.name: cluster.bootstrap for cluster in clusters}
