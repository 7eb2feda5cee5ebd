"""The cluster of a command that can start one of its own: by its engine, or one that is up."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass

from jbodlab.cli.choice import DEFAULT_CLUSTER, machine_cluster
from jbodlab.cli.output import Output
from lab import opened, up_and_down
from lab.cluster import Cluster, spec
from lab.cluster.engine import ENGINE_VARIABLE, EngineError, chosen
from lab.errors import WrongCallError
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.up_and_down import Tell


@dataclass(frozen=True, slots=True)
class Chosen:
    """A cluster that serves.

    Attributes:
        stays: Whether it goes on when the command ends.
    """

    cluster: Cluster
    stays: bool


def chosen_name(options: Namespace, files: StateFiles, output: Output) -> str:
    """Return the name of the cluster of a command; otherwise as `chosen_cluster`.

    Raises:
        NoClusterError: none is named or up, or several are.
    """
    if options.cluster is None and _may_start(options, files):
        return DEFAULT_CLUSTER
    return machine_cluster(options.cluster, output)


def _may_start(options: Namespace, files: StateFiles) -> bool:
    if spec.first_given(options):
        return True
    return not files.names() and bool(os.environ.get(ENGINE_VARIABLE, "").strip())


@contextlib.contextmanager
def chosen_cluster(
    options: Namespace, files: StateFiles, interrupts: Interrupts, tell: Tell
) -> Iterator[Chosen]:
    """Take the cluster that is up, or start one of the engine that is named, which ends again.

    Args:
        options: Those of `declaring.settings`, and the name of the cluster.
        files: Where clusters are written down; the lock of the name is held.
        interrupts: Held back while a cluster ends.
        tell: Gets the progress of a start.

    Raises:
        LabError: none of this name is up, and no engine is named; or one cannot be started.
        WrongCallError: a cluster of this name is up, so an engine has no effect; or the engine has
            no such nodes.
    """
    name: str = options.cluster
    given = spec.first_given(options)
    if files.read(name) is not None:
        if given:
            raise WrongCallError(
                f"cluster {name} is up, so {given} has no effect; "
                f"`{programs.call('down', name)}` ends it"
            )
        yield Chosen(opened.opened(files, name, interrupts), stays=True)
        return
    if not given and not os.environ.get(ENGINE_VARIABLE, "").strip():
        # It says that there is none.
        opened.read(files, name)
    try:
        wanted = spec.of_options(options, chosen(options.engine, os.environ))
    except EngineError as error:
        raise WrongCallError(str(error)) from error
    up_and_down.make_room(name, files, tell)
    try:
        up_and_down.up(name, programs.server_user(None), wanted, files, interrupts, tell)
        yield Chosen(opened.opened(files, name, interrupts), stays=False)
    finally:
        with interrupts.deferred():
            for problem in up_and_down.down(name, files):
                tell(problem)
