"""`jbodlab up` and `down`: a cluster that stays, and its end."""

from __future__ import annotations

import json
import os
from argparse import Namespace

from msgspec.structs import replace

from jbodlab.cli import lab_state
from jbodlab.cli.choice import DEFAULT_CLUSTER
from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output
from lab import up_and_down
from lab.cluster import engine
from lab.cluster.security import client_files, folder
from lab.cluster.spec import of_options
from lab.errors import LabError
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles


def up(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Start a cluster and leave it running; returns the exit code."""
    name: str = options.cluster
    user = programs.server_user(options.uid)
    spec = of_options(options, engine.chosen(options.engine, os.environ))
    files = StateFiles.open()
    with files.lock(name):
        up_and_down.make_room(name, files, output.line)
        state = up_and_down.up(name, user, spec, files, interrupts, output.line)
        with interrupts.deferred():
            state = replace(state, owner=None)
            files.write(state)
    found = json.loads(lab_state.to_json(state))
    found |= {**found.pop("spec"), "client_files": client_files(state)}
    output.result(found, _hints(state))
    return 0


def _hints(state: ClusterState) -> str:
    hints = {
        "look": "status",
        "watch": "ui --allow-faults",
        "break": "inject permission broker-1/1",
        "heal": "heal --revive",
        "end": "down",
    }
    lines = [f"{word + ':':<7} {programs.call(hint, state.name)}" for word, hint in hints.items()]
    files = [f"{client + ':':<13} {path}" for client, path in client_files(state).items()]
    if files:
        others = f"others:       admin may do everything, mallory nothing: {folder(state)}"
        files = ["files for clients:", *files, others, ""]
    return "\n".join(["", f"bootstrap.servers={state.bootstrap}", "", *files, *lines])


def down(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """End a cluster and remove it; returns the exit code."""
    files = StateFiles.open()
    name = options.cluster or _only_one(files, output)
    problems: list[str] = []
    _ask(name, options, output, files)
    with interrupts.deferred():
        with files.lock(name):
            was_up = files.read(name) is not None or files.root(name).exists()
            if was_up:
                problems += up_and_down.down(name, files)
        ended = was_up and not problems
        if ended:
            output.line(f"cluster {name} stopped and removed")
        elif not was_up:
            output.line(f"no cluster named {name}")
        problems += up_and_down.remove_leftovers(files, output.line)
    if output.is_json:
        output.json({"name": name, "ended": ended, "problems": problems})
    for problem in problems:
        output.note(f"jbodlab: {problem}")
    return 1 if problems else 0


def _only_one(files: StateFiles, output: Output) -> str:
    """Return the only cluster of this machine; the default one where there is none.

    Raises:
        LabError: there are several.
    """
    names = files.names()
    if len(names) > 1:
        raise LabError(
            f"several clusters are on this machine ({', '.join(names)}); choose one with --cluster"
        )
    if not names:
        return DEFAULT_CLUSTER
    output.note(f"cluster {names[0]}")
    return names[0]


def _ask(name: str, options: Namespace, output: Output, files: StateFiles) -> None:
    """Ask before records are deleted that nobody can make again; the demo's anybody can."""
    state = files.read(name)
    if state is None or name == up_and_down.DEMO_CLUSTER:
        return
    count, size = up_and_down.records_kept(state)
    if size:
        output.confirm(
            f"stop cluster {name} and delete {size:,} bytes of records in {count} partitions?",
            yes=options.yes,
        )
