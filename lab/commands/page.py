"""`jbodlab ui` and `serve`: the API of a cluster over HTTP, with the live page in front."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import secrets
import signal
import subprocess
import threading
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from jbodlab.cli.lab_state import ClusterState
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
    spec_of,
    words_of,
)
from lab.commands.declaring import settings
from lab.errors import LabError
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

if TYPE_CHECKING:
    from jbodlab.cli.results import Served
    from lab.api.actions import Actions

LOOPBACK = "127.0.0.1"
LENGTH_S_MAX = 600.0
"""Longest fault of a cluster that goes on when its page ends."""
TOKEN_VARIABLE = "JBODLAB_TOKEN"


def ui(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Serve the page of a cluster until Ctrl-C; returns the exit code."""
    from lab.ui import watching

    files = StateFiles.open()
    name = options.cluster
    if name is None and options.allow_faults:
        raise UsageError("--allow-faults is only for a cluster of this machine")
    if name is None:
        foreign = watching.foreign(options.bootstrap_server, options.command_config or "")
        with _door(
            lambda: foreign, None, options.allow_faults, (LOOPBACK, options.port or 0)
        ) as door:
            return door.stay(output)
    read = _own(files, name)
    read()
    with _door(read, files, options.allow_faults, (LOOPBACK, options.port or 0)) as door:
        try:
            return door.stay(output)
        finally:
            with interrupts.deferred():
                for line in door.end():
                    output.note(f"jbodlab: {line}")


def serve(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Start a cluster, serve its API until a signal, and remove it; returns the exit code."""
    files, name = StateFiles.open(), options.cluster
    host, port = _listen(options.listen)
    spec = _spec(_given(options))
    user = programs.server_user(options.uid)
    if options.until_input_ends:
        threading.Thread(target=_end_with_input, daemon=True).start()
    # The HTTP server is imported while the servers of the cluster start.
    importing = threading.Thread(target=importlib.import_module, args=(name_of("lab.api.app"),))
    importing.start()
    with files.lock(name):
        up_and_down.make_room(name, files, output.note)
        keeper = _keeper(name)
        try:
            _up(name, spec, files, interrupts, output, user)
        except BaseException:
            _let_go(keeper)
            raise
    importing.join()

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

    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token and host not in (LOOPBACK, "localhost"):
        token = secrets.token_urlsafe(24)
    try:
        with _door(
            _own(files, name), files, True, (host, port), token=token, start_anew=start_anew
        ) as door:
            return door.stay(output, teaches=True)
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


def _own(files: StateFiles, name: str) -> Any:
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
    state = up_and_down.up(name, user, spec, files, interrupts, output.note)
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


class _Door:
    """A server that serves."""

    def __init__(
        self, url: str, token: str, state: ClusterState, ended: Any, actions: Actions
    ) -> None:
        self._url = url
        self._token = token
        self._state = state
        self._ended = ended
        self._actions = actions

    def stay(self, output: Output, *, teaches: bool = False) -> int:
        """Print the address, and stay until a signal.

        Args:
            output: Where it is printed.
            teaches: Whether people are told how to break a disk.
        """
        shown = f"{self._url}#token={self._token}" if self._token else self._url
        state = self._state
        if output.is_json:
            found: Served = {
                "url": shown,
                "name": state.name,
                "bootstrap": state.bootstrap,
                "token": self._token,
            }
            output.json_line(found)
        else:
            elsewhere = [f"{host}:{port}" for host, port, _ in spec_of(state).advertised]
            bootstrap = ",".join(elsewhere) or state.bootstrap
            output.line(f"cluster {state.name}: {shown}\nbootstrap.servers={bootstrap}")
            if teaches:
                output.line(f"break a disk for 30 s:\n{self._first_fault()}")
            output.line("until Ctrl-C")
        self._ended.result()
        return 0

    def _first_fault(self) -> str:
        """Return the command that breaks a directory which every cluster has, by a kind it has."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        given = " ".join(f"-H '{name}: {value}'" for name, value in headers.items())
        body = '{"kind": "permission", "where": "broker-1/1", "for": "30s"}'
        return f"curl {given} -d '{body}' {self._url}v1/faults"

    def end(self) -> list[str]:
        """Undo what was broken here; returns a line for each fault, and what is to be done."""
        # It is no part of a start, which has the servers' classes to make, too.
        from lab.commands import breaking

        said = self._actions.end()
        if said and (cluster := self._actions.opened()) is not None:
            to_do, _ = breaking.afterwards(self._state.name, cluster, [], reviving=False)
            return [*said, *to_do]
        return said


@contextlib.contextmanager
def _door(
    watched: Any,
    files: StateFiles | None,
    may_change: bool,
    address: tuple[str, int],
    *,
    token: str | None = None,
    start_anew: Any = None,
) -> Iterator[_Door]:
    """Serve until the end of the block.

    Args:
        watched: Returns the cluster that is served.
        files: Where it is written down; None for one of somebody else.
        may_change: Whether anything can be changed.
        address: Where to listen.
        token: Token of requests, empty for none; None: that of a page, which only changes need.
        start_anew: Starts another cluster in its place.
    """
    from lab.api import app
    from lab.api.access import Access
    from lab.api.actions import Actions
    from lab.api.served import Served
    from lab.api.serving import bound, serving
    from lab.ui.live import Live

    host, port = address
    listening = bound(host, port)
    port = listening.getsockname()[1]
    is_page = token is None
    first = watched()
    is_closed = bool(spec_of(first.state).security or first.state.brokers[0].client_file)
    if token is None:
        token = secrets.token_urlsafe(24) if may_change or is_closed else ""
    is_local = host in (LOOPBACK, "localhost")
    access = Access(
        token=token,
        is_secret=is_closed or not is_page,
        hosts=frozenset((f"127.0.0.1:{port}", f"localhost:{port}")) if is_local else frozenset(),
    )
    live = Live(watched, secrets.token_hex(4), may_break=may_change, needs_token=bool(token))
    actions = Actions(lambda: watched().state, live.seen, files, LENGTH_S_MAX if is_page else None)

    def replaced(wanted: Any) -> None:
        with live.looking_away():
            start_anew(wanted)

    served = Served(
        actions,
        bootstrap=lambda: (state := watched().state, (state.bootstrap, _client_file(state)))[1],
        start_anew=None if start_anew is None else replaced,
    )
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    with (
        contextlib.closing(served.rehearsals),
        serving(
            lambda: app.make(served, live, access, may_change=may_change), listening, live.run
        ) as ended,
    ):
        yield _Door(f"http://{shown}:{port}/", token, first.state, ended, actions)


def _client_file(state: ClusterState) -> str:
    return state.brokers[0].client_file
