"""The server of one cluster: its API, with the live page in front."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output
from lab.api import app
from lab.api.access import Access
from lab.api.actions import Actions
from lab.api.served import Served
from lab.api.serving import bound, serving
from lab.cluster.spec import spec_of
from lab.commands import breaking
from lab.state_files import StateFiles
from lab.ui.live import Live
from lab.ui.watching import WatchedCluster

if TYPE_CHECKING:
    from jbodlab.cli import results

LOOPBACK = ("127.0.0.1", "localhost")
LENGTH_S_MAX = 600.0
"""Longest fault of a cluster that goes on when its page ends."""
SIGNAL_PERIOD_S = 0.5


class Door:
    """A server that serves.

    Args:
        url: Where.
        token: Token of its requests; empty where none is needed.
        state: The cluster as it was at the start.
        ended: Ends when the server does.
        actions: Actions on the cluster.
    """

    def __init__(
        self, url: str, token: str, state: ClusterState, ended: Future[None], actions: Actions
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
            found: results.Served = {
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
        # A signal that comes between two steps of a wait without end would not end it.
        while not self._ended.done():
            futures.wait([self._ended], SIGNAL_PERIOD_S)
        self._ended.result()
        return 0

    def _first_fault(self) -> str:
        """Return the command that breaks a directory which every cluster has, by a kind it has."""
        token = f" -H 'Authorization: Bearer {self._token}'" if self._token else ""
        body = '{"kind": "permission", "where": "broker-1/1", "for": "30s"}'
        return f"curl -H 'Content-Type: application/json'{token} -d '{body}' {self._url}v1/faults"

    def end(self) -> list[str]:
        """Undo what was broken here; returns a line for each fault, and what is to be done."""
        if said := self._actions.end():
            with self._actions.opened() as cluster:
                to_do, _ = breaking.afterwards(self._state.name, cluster, [], reviving=False)
            said += to_do
        return said


@contextlib.contextmanager
def opened(
    watched: Callable[[], WatchedCluster],
    files: StateFiles | None,
    address: tuple[str, int],
    *,
    may_change: bool,
    token: str | None = None,
    start_anew: Callable[[Any], None] | None = None,
) -> Iterator[Door]:
    """Serve until the end of the block.

    Args:
        watched: Returns the cluster that is served.
        files: Where it is written down; None for one of somebody else.
        address: Where to listen.
        may_change: Whether anything can be changed.
        token: Token of requests, empty for none that this user needs; None: that of a page, which
            only changes need.
        start_anew: Starts another cluster in its place.
    """
    host, port = address
    is_page, is_local = token is None, host in LOOPBACK
    listening = bound(host, port)
    port = listening.getsockname()[1]
    first = watched()
    is_closed = bool(spec_of(first.state).security or first.state.brokers[0].client_file)
    if not token and ((may_change or is_closed) if is_page else not is_local):
        token = secrets.token_urlsafe(24)
    access = Access(
        token=token or "",
        is_secret=is_closed or not is_page,
        hosts=frozenset(f"{name}:{port}" for name in LOOPBACK) if is_local else frozenset(),
    )
    live = Live(watched, secrets.token_hex(4), may_break=may_change, needs_token=bool(token))
    actions = Actions(lambda: watched().state, live.seen, files, LENGTH_S_MAX if is_page else None)

    def replaced(wanted: Any) -> None:
        assert start_anew is not None
        with live.looking_away():
            start_anew(wanted)

    served = Served(actions, start_anew=None if start_anew is None else replaced)
    shown = LOOPBACK[0] if host in ("0.0.0.0", "::") else host
    with (
        contextlib.closing(served.rehearsals),
        serving(
            lambda: app.make(served, live, access, may_change=may_change), listening, live.run
        ) as ended,
    ):
        try:
            yield Door(f"http://{shown}:{port}/", access.token, first.state, ended, actions)
        finally:
            # The server ends when its threads have.
            actions.end_waits()
