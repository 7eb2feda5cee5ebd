"""A cluster behind the API, with its rehearsals and the pages that other commands make."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab.api import values
from lab.api.actions import Actions
from lab.api.problems import RequestError
from lab.api.rehearsals import Rehearsals
from lab.machine import programs

COMMAND_DEADLINE_S = 120.0
REASON_CHARS = 300


class Served:
    """One cluster behind the API.

    Args:
        actions: Actions on it.
        bootstrap: Returns its addresses, and the file by which it is reached; empty where it is
            open.
        start_anew: Ends the cluster and starts the one that is described; None where the cluster
            was there before this server.
    """

    def __init__(
        self,
        actions: Actions,
        *,
        bootstrap: Callable[[], tuple[str, str]],
        start_anew: Callable[[Any], None] | None = None,
    ) -> None:
        self.actions = actions
        self._bootstrap = bootstrap
        self._start_anew = start_anew
        self._one = threading.Lock()
        self.rehearsals = Rehearsals()

    def replace(self, wanted: Any) -> values.Cluster:
        """Start another cluster in the place of this one."""
        if self._start_anew is None:
            raise RequestError(409, "only `jbodlab serve` replaces its cluster")
        with self._one:
            self._start_anew(wanted)
        return self.actions.cluster()

    def what_if(self, asked: values.OfWhatIf) -> dict[str, Any]:
        """Return what losses would take."""
        if asked.broker is not None:
            self.actions.broker(values.OfBroker(broker=asked.broker))
        words = ["--fail-dir", asked.directory] if asked.directory else []
        words += ["--fail-broker", str(asked.broker)] if asked.broker is not None else []
        # Exit code 2 says that something would not stay available, or that the call is wrong.
        found = self._what_if([*words, "--output", "json"])
        return {"losses": msgspec.json.decode(found)}

    def what_if_page(self) -> bytes:
        """Return the page of all losses."""
        return self._what_if(["--format", "html"])

    def report(self) -> bytes:
        """Return the report of the replayed metadata log."""
        with tempfile.TemporaryDirectory(prefix="jbodlab-report-") as folder:
            log = self.actions.metadata_log()
            words = ["--engine", "local", "--input", str(log), "--results", folder]
            _printed(["replay", *words])
            pages = sorted(Path(folder).rglob("*.html"))
            if not pages:
                raise RequestError(503, "the replay made no report")
            return pages[0].read_bytes()

    def metadata_log(self) -> bytes:
        """Return the files of the metadata log as an archive."""
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

    def close(self) -> None:
        """End rehearsals."""
        self.rehearsals.close()

    def _what_if(self, words: Sequence[str]) -> bytes:
        bootstrap, client_file = self._bootstrap()
        file = ["--command-config", client_file] if client_file else []
        return _printed(["what-if", "--bootstrap-server", bootstrap, *file, *words], codes=(0, 2))


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
