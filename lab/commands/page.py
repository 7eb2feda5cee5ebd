"""`jbodlab ui`: the live page of a cluster, and what its buttons do.

A fault that the page made heals by itself after its length; when the command ends it heals first.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from fault_injection import kinds
from fault_injection.errors import FaultError
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition
from lab import opened
from lab.cluster import Cluster, NotInTimeError
from lab.cluster.spec import spec_of
from lab.commands import breaking
from lab.errors import LabError
from lab.machine import programs
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.ui import model, watching
from lab.ui.losses import LossesPage
from lab.ui.model import Seen
from lab.ui.server import HOST, RefusedError, Server

LENGTH_S_MAX = 600.0
END_DEADLINE_S = 10.0
KEYS = ("kind", "where", "for", "parameters", "even_last_in_sync")


def run(options: Namespace, output: Output, interrupts: Interrupts) -> int:
    """Serve until Ctrl-C; returns the exit code."""
    files = StateFiles.open()
    if options.cluster is None:
        if options.allow_faults:
            raise UsageError("--allow-faults is only for a cluster of this machine")
        watched = watching.foreign(options.bootstrap_server, options.command_config or "")
        actions = None
    else:
        watched = watching.own(opened.read(files, options.cluster), files.directory)
        actions = PageActions(files, options.cluster) if options.allow_faults else None
    # A user who needs a file to reach it has it from somebody who closed the cluster.
    is_closed = bool(spec_of(watched.state).security or options.command_config)
    token = secrets.token_urlsafe(24)
    server = Server(
        watched,
        start=secrets.token_hex(4),
        token=token,
        is_closed=is_closed,
        actions=actions,
        losses=LossesPage(_what_if(options)),
    )
    if actions is not None:
        actions.seen = server.seen
    serving: Future[int] = Future()
    running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        running.set_result((asyncio.get_running_loop(), task))
        with contextlib.suppress(asyncio.CancelledError):
            await server.run(options.port, serving)

    # The event loop has a thread of its own; the main thread is left to signals.
    with ThreadPoolExecutor(1, thread_name_prefix="page") as pool:
        ended: Future[Any] = pool.submit(asyncio.run, serve())
        either: list[Future[Any]] = [serving, ended]
        try:
            wait(either, return_when=FIRST_COMPLETED)
            if serving.done():
                url = f"http://{HOST}:{serving.result()}/"
                if actions is not None or is_closed:
                    url += f"#token={token}"
                name = watched.state.name
                if output.is_json:
                    output.json_line({"url": url, "name": name})
                else:
                    output.line(f"cluster {name}: {url}\nuntil Ctrl-C")
            ended.result()
        finally:
            # The page asks for nothing any more, so that what is healed now stays so; an action
            # that is on its way comes to its end.
            loop, task = running.result()
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
            wait((ended,))
            if actions is not None:
                with interrupts.deferred():
                    for line in actions.end():
                        print(f"jbodlab: {line}", file=sys.stderr)
    return 0


def _what_if(options: Namespace) -> list[str]:
    """Return the command that prints the page of all losses."""
    words = ["what-if", "--bootstrap-server", options.bootstrap_server, "--format", "html"]
    if options.command_config is not None:
        words += ["--command-config", str(options.command_config)]
    return programs.tool(*words)


class PageActions:
    """Effects of the buttons, through the same code as `jbodlab inject` and `heal`.

    Args:
        files: Where clusters are written down.
        name: Name of the cluster.
    """

    def __init__(self, files: StateFiles, name: str) -> None:
        nothing = Seen(name=name, bootstrap="", brokers=())
        self.seen: Callable[[], Seen] = lambda: nothing
        """Returns the cluster as it was seen last."""
        self._files = files
        self._name = name
        self._made: list[int] = []

    def inject(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Break something that has a length.

        Args:
            request: `kind`, `where` as on the command line, `for`, `parameters` of the kind, and
                `even_last_in_sync`.

        Raises:
            RefusedError: it cannot be, or the last replica in sync would go and that is not ticked.
        """
        try:
            kind, where, parameters = self._checked(request)
            with self._files.lock(self._name):
                cluster = opened.opened(self._files, self._name, None)
                spec, target = opened.described(cluster, kind, where, parameters)
                last = self._last_in_sync(cluster, kind, where)
                if last and request.get("even_last_in_sync") is not True:
                    raise RefusedError(
                        f"{where} has the last replica in sync of {model.named(last)}; "
                        "tick that this is wanted"
                    )
                fault = cluster.faults.inject(spec, target)
                self._made.append(fault.id)
        except (JbodlabError, FaultError, LabError, NotInTimeError, ValueError) as error:
            raise RefusedError(_first_line(error)) from error
        said = f"fault {fault.id}: {fault.kind} on {where} by {fault.mechanism}, proved"
        return {"id": fault.id, "text": said}

    def heal(self) -> dict[str, Any]:
        """Revert every fault of the cluster and bring its directories back.

        Raises:
            RefusedError: a fault could not be reverted.
        """
        try:
            with self._files.lock(self._name):
                cluster = opened.opened(self._files, self._name, None)
                lines, problems, _ = breaking.heal_open(cluster, (), contextlib.nullcontext)
                to_do, came_back = breaking.afterwards(self._name, cluster, problems, reviving=True)
        except (JbodlabError, FaultError, LabError, NotInTimeError) as error:
            raise RefusedError(_first_line(error)) from error
        if problems:
            raise RefusedError("; ".join(problems))
        said = [*lines, *(f"{path} is online again" for path in came_back), *to_do]
        return {"text": "\n".join(said) or "no fault is in effect"}

    def end(self) -> list[str]:
        """Revert the faults of the page that are still in effect; returns a line for each."""
        if not self._made or self._files.read(self._name) is None:
            return []
        cluster = opened.opened(self._files, self._name, None)
        said = []
        for number in self._made[::-1]:
            try:
                if cluster.faults.heal(number) is not None:
                    said.append(f"fault {number} healed")
            except FaultError as error:
                said.append(str(error))
        to_do, _ = breaking.afterwards(self._name, cluster, [], reviving=False)
        return [*said, *to_do]

    def _last_in_sync(self, cluster: Cluster, kind: str, where: str) -> list[TopicPartition]:
        """Return the partitions that a fault would leave without a replica in sync."""
        if kinds.kind_named(kind).scope is kinds.Scope.CLUSTER:
            return []
        broker, directory = opened.target(cluster, where)
        number = None if directory is None else broker.log_dirs.index(directory) + 1
        return self.seen().last_in_sync(broker.id, number)

    def _checked(self, request: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
        if unknown := set(request) - set(KEYS):
            raise RefusedError(f"unknown key {min(unknown)!r} (expected {', '.join(KEYS)})")
        kind, where = request.get("kind"), request.get("where")
        parameters = request.get("parameters", {})
        if not (isinstance(kind, str) and isinstance(where, str) and isinstance(parameters, dict)):
            raise RefusedError(
                "expected strings for `kind` and `where`, an object for `parameters`"
            )
        if "for" in parameters:
            raise RefusedError("`for` belongs beside `parameters`, not inside")
        if kinds.kind_named(kind).name == "restart":
            return kind, where, parameters
        length_s = duration_s(request.get("for"))
        if not 0 < length_s <= LENGTH_S_MAX:
            raise RefusedError(f"a fault of the page has a length of up to {LENGTH_S_MAX:g} s")
        return kind, where, {**parameters, "for": length_s}


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
