"""A cluster behind the API, with its rehearsals and the pages that other commands make."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab.api import values
from lab.api.actions import Actions
from lab.api.operations import EVENTS, HTML, TAR, Operation, declared, fields, get, put
from lab.api.problems import RequestError
from lab.api.rehearsals import Rehearsals
from lab.machine import programs

COMMAND_DEADLINE_S = 120.0
REASON_CHARS = 300


class Served:
    """One cluster behind the API.

    Args:
        actions: Actions on it.
        start_anew: Ends the cluster and starts the one that is described; None where the cluster
            was there before this server.
    """

    def __init__(self, actions: Actions, start_anew: Callable[[Any], None] | None = None) -> None:
        self.actions = actions
        self._start_anew = start_anew
        self._one = threading.Lock()
        self.rehearsals = Rehearsals()

    @put("/cluster", 409, body=values.NewCluster)
    def replace_cluster(self, wanted: Any) -> values.Cluster:
        """End the cluster, and start another one in its place."""
        if self._start_anew is None:
            raise RequestError(409, "only `jbodlab serve` replaces its cluster")
        with self._one:
            self._start_anew(wanted)
        return self.actions.get_cluster()

    @get("/what-if", 404, 409, 503)
    def get_what_if(
        self, directory: values.Losing = "", broker: values.Index | None = None
    ) -> dict[str, Any]:
        """Tell what the loss of a directory or broker would take."""
        if broker is not None:
            self.actions.get_broker(broker)
        words = ["--fail-dir", directory] if directory else []
        words += ["--fail-broker", str(broker)] if broker is not None else []
        # Exit code 2 says that something would not stay available, or that the call is wrong.
        found = self._what_if([*words, "--output", "json"])
        return {"losses": msgspec.json.decode(found)}

    @get("/what-if/page", 409, 503, media=HTML)
    def get_what_if_page(self) -> bytes:
        """Return the page of all losses."""
        return self._what_if(["--format", "html"])

    @get("/report", 409, 503, media=HTML)
    def get_report(self) -> bytes:
        """Replay the metadata log, and return the report."""
        with tempfile.TemporaryDirectory(prefix="jbodlab-report-") as folder:
            log = self.actions.metadata_log()
            words = ["--engine", "local", "--input", str(log), "--results", folder]
            _printed(["replay", *words])
            pages = sorted(Path(folder).rglob("*.html"))
            if not pages:
                raise RequestError(503, "the replay made no report")
            return pages[0].read_bytes()

    @get("/metadata-log", 409, media=TAR)
    def get_metadata_log(self) -> bytes:
        """Return the metadata log of the first controller as an archive."""
        folder = self.actions.metadata_log()
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for path in sorted(folder.iterdir()):
                if path.is_file():
                    # A file that grows meanwhile would not fit its own head.
                    content = path.read_bytes()
                    head = tarfile.TarInfo(f"{folder.name}/{path.name}")
                    head.size, head.mtime = len(content), int(path.stat().st_mtime)
                    archive.addfile(head, io.BytesIO(content))
        return made.getvalue()

    def _what_if(self, words: Sequence[str]) -> bytes:
        state = self.actions.state()
        words = ["what-if", "--bootstrap-server", state.bootstrap, *words]
        if client_file := state.brokers[0].client_file:
            words += ["--command-config", client_file]
        return _printed(words, codes=(0, 2))


def _printed(words: Sequence[str], codes: Sequence[int] = (0,)) -> bytes:
    """Return what a command of ours prints.

    Raises:
        RequestError: it failed, or did not end in time.
    """
    try:
        done = subprocess.run(
            programs.tool(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RequestError(503, f"no answer within {COMMAND_DEADLINE_S:g} s") from None
    if done.returncode not in codes or (done.returncode and not done.stdout):
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it has failed"]
        raise RequestError(409, lines[-1][:REASON_CHARS])
    return done.stdout


ACTS = {
    "start": "Start a {} where it does not run",
    "stop": "Stop a {} in order",
    "kill": "Kill a {} with SIGKILL",
    "freeze": "Freeze a {} with SIGSTOP",
    "thaw": "Let a {} go on after `freeze`",
}


def _acts(role: str, gives: type) -> Iterator[Operation]:
    def run(act: str) -> Callable[..., Any]:
        return lambda actions, **asked: actions.act(act, role, asked[role])

    for act, text in ACTS.items():
        name = f"{act}{role.title()}"
        yield Operation(
            method="POST",
            path=f"/{role}s/{{{role}}}/{act}",
            name=name,
            summary=text.format(role),
            run=run(act),
            asked=fields(name, **{role: values.Index}),
            gives=gives,
            errors=(404, 409),
        )


OPERATIONS: Mapping[type, Sequence[Operation]] = {
    Actions: (
        *declared(Actions),
        *_acts("broker", values.Broker),
        *_acts("controller", values.Controller),
    ),
    Rehearsals: tuple(declared(Rehearsals)),
    Served: (
        *declared(Served),
        Operation(
            method="GET",
            path="/events",
            name="streamEvents",
            summary="Stream what happens: patches with `sections` of the live page, and `events`",
            run=None,
            asked=fields("Events"),
            media=EVENTS,
            errors=(503,),
        ),
    ),
}
"""All requests, by the class of the object that carries them out."""
