"""`jbodlab ui` and `serve`: the API of a cluster over HTTP, with the live page in front."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser, UsageError
from jbodlab.cli.program_names import name_of
from lab import opened, up_and_down
from lab.cluster import engine
from lab.cluster.spec import (
    OF_TESTS,
    SETTINGS,
    ClusterSpec,
    of_options,
    of_variables,
    words_of,
)
from lab.commands.declaring import settings
from lab.errors import LabError
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

if TYPE_CHECKING:
    from lab.ui.watching import WatchedCluster

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "JBODLAB_TOKEN"


def ui(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Serve the page of a cluster until Ctrl-C; returns the exit code."""
    from lab.commands import door
    from lab.ui import watching

    name, files, address = options.cluster, None, (LOOPBACK, options.port or 0)
    if name is not None:
        files = StateFiles.open()
        read = _own(files, name)
        read()
    elif options.allow_faults:
        raise UsageError("--allow-faults is only for a cluster of this machine")
    else:
        foreign = watching.foreign(options.bootstrap_server, options.command_config or "")

        def read() -> WatchedCluster:
            return foreign

    with door.opened(read, files, address, may_change=options.allow_faults) as server:
        try:
            return server.stay(output)
        finally:
            with interrupts.deferred():
                for line in server.end():
                    output.note(f"jbodlab: {line}")


def serve(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Start a cluster, serve its API until a signal, and remove it; returns the exit code."""
    files, name = StateFiles.open(), options.cluster
    address = _listen(options.listen)
    spec = _spec(_given(options))
    user = programs.server_user(options.uid)
    if options.until_input_ends:
        threading.Thread(target=_end_with_input, daemon=True).start()
    with files.lock(name):
        up_and_down.make_room(name, files, output.note)
        keeper = _keeper(name)
        try:
            _up(name, spec, files, interrupts, output, user)
        except BaseException:
            _let_go(keeper)
            raise

    def start_anew(wanted: Any) -> None:
        nonlocal spec
        asked = msgspec.structs.asdict(wanted).items()
        found = _spec(
            words_of({name: value for name, value in asked if value is not msgspec.UNSET})
        )
        with files.lock(name):
            if problems := up_and_down.down(name, files):
                raise LabError("; ".join(problems))
            try:
                _up(name, found, files, interrupts, output, user)
            except Exception:
                # Without a cluster there would be nothing to serve.
                _up(name, spec, files, interrupts, output, user)
                raise
        spec = found

    from lab.commands import door

    token = os.environ.get(TOKEN_VARIABLE, "")
    try:
        with door.opened(
            _own(files, name), files, address, may_change=True, token=token, start_anew=start_anew
        ) as server:
            return server.stay(output, teaches=True)
    finally:
        with interrupts.deferred():
            with files.lock(name):
                problems = up_and_down.down(name, files)
            _let_go(keeper)
        for problem in problems:
            output.note(f"jbodlab: {problem}")


def _end_with_input() -> None:
    """Ask this process to end when nobody holds the other end of its standard input any more."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _own(files: StateFiles, name: str) -> Callable[[], WatchedCluster]:
    """Return what reads a cluster of this machine as it is now."""
    from lab.ui import watching

    return lambda: watching.own(opened.read(files, name), files.directory)


def _up(
    name: str,
    spec: ClusterSpec,
    files: StateFiles,
    interrupts: Interrupts,
    output: Output,
    user: Any,
) -> None:
    # The HTTP server is imported while the nodes start: before, it would hold up their start.
    state = up_and_down.up(
        name,
        user,
        spec,
        files,
        interrupts,
        output.note,
        lambda: import_module(name_of("lab.commands.door")),
    )
    files.write(replace(state, owner=None))


def _listen(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"--listen: expected HOST:PORT, got {text!r}")
    return host, int(port)


def _given(options: Namespace) -> list[str]:
    """Return the words of the settings: those of the environment, then the command line's."""
    given = {name: getattr(options, name) for name in SETTINGS}
    return [*of_variables(os.environ), *words_of(given)]


def _spec(words: list[str]) -> ClusterSpec:
    """Return the description that words of a command line make.

    Raises:
        UsageError: a word is wrong.
        EngineError: the engine has no such nodes.
    """
    parser = Parser("serve", "the settings of a cluster")
    settings(parser, "up")
    try:
        options = parser.parse_all(words)
    except UsageError as error:
        raise LabError(str(error)) from error
    found = of_options(options, engine.chosen(options.engine, os.environ))
    return dataclasses.replace(found, config={**OF_TESTS, **found.config})


def _keeper(name: str) -> subprocess.Popen[bytes]:
    """Start what takes the cluster down where this process is killed."""
    down = programs.tool("down", "--cluster", name, "--yes")
    return subprocess.Popen(
        ["/bin/sh", "-c", 'cat >/dev/null; exec "$@"', "keeper", *down],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _let_go(keeper: subprocess.Popen[bytes]) -> None:
    """End a keeper whose cluster is gone."""
    keeper.kill()
    keeper.communicate()
