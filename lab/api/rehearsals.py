"""Runs of plans, each by `jbodlab rehearse` in a process and a folder of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import signal
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from lab.api import values
from lab.api.operations import HTML, delete, get, post
from lab.api.problems import RequestError
from lab.machine import programs
from lab.plan import plans, reader

CANCEL_DEADLINE_S = 60.0
LINES_KEPT = 500
RUNNING, ENDED, CANCELLED = "running", "ended", "cancelled"


@dataclass(slots=True)
class _Run:
    number: int
    plan: str
    folder: Path
    child: subprocess.Popen[bytes]
    is_cancelled: bool = False

    @property
    def state(self) -> str:
        if self.child.poll() is None:
            return RUNNING
        return CANCELLED if self.is_cancelled else ENDED

    def told(self) -> values.Rehearsal:
        code = self.child.poll()
        result = None
        with contextlib.suppress(OSError, ValueError):
            result = json.loads((self.folder / "results" / "result.json").read_text("utf-8"))
        lines = (self.folder / "output").read_text("utf-8", "replace").splitlines()
        return values.Rehearsal(
            id=self.number,
            plan=self.plan,
            state=self.state,
            exit_code=code,
            progress=lines[-LINES_KEPT:],
            result=None if code is None else result,
        )


class Rehearsals:
    """All runs since the server has started; one at a time, as two would disturb each other."""

    def __init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    @get("/rehearsals")
    def list_rehearsals(self) -> list[values.Rehearsal]:
        """List the runs of plans."""
        return [run.told() for run in list(self._runs.values())]

    @post("/rehearsals", 409, status=201, once=True)
    def create_rehearsal(self, wanted: values.NewRehearsal) -> values.Rehearsal:
        """Run a plan on a cluster of its own, or on this one where it says `attach`.

        Raises:
            RequestError: the plan is wrong, or another run has not ended.
        """
        text, name = _text(wanted)
        with self._lock:
            if any(run.state == RUNNING for run in self._runs.values()):
                raise RequestError(409, "another rehearsal has not ended")
            folder = Path(mkdtemp(prefix="jbodlab-rehearsal-"))
            plan = folder / "plan.yaml"
            plan.write_text(text, "utf-8")
            words = ["rehearse", str(plan), "--results", str(folder / "results")]
            words += ["--engine", wanted.engine] if wanted.engine else []
            with (folder / "output").open("wb") as output:
                child = subprocess.Popen(
                    programs.tool(*words),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            run = _Run(next(self._numbers), name, folder, child)
            self._runs[run.number] = run
        return run.told()

    @get("/rehearsals/{rehearsal}", 404)
    def get_rehearsal(self, rehearsal: values.Index) -> values.Rehearsal:
        """Return progress and findings of a run."""
        return self._known(rehearsal).told()

    @delete("/rehearsals/{rehearsal}", 404, 409)
    def cancel_rehearsal(self, rehearsal: values.Index) -> values.Rehearsal:
        """End a run that has not ended, after all is healed."""
        run = self._known(rehearsal)
        if run.child.poll() is None:
            run.is_cancelled = True
            run.child.send_signal(signal.SIGINT)
            try:
                run.child.wait(CANCEL_DEADLINE_S)
            except subprocess.TimeoutExpired:
                raise RequestError(409, "the rehearsal has not ended yet") from None
        return run.told()

    @get("/rehearsals/{rehearsal}/page", 404, 409, media=HTML)
    def get_rehearsal_page(self, rehearsal: values.Index) -> bytes:
        """Return the page of a run."""
        run = self._known(rehearsal)
        try:
            return (run.folder / "results" / "report.html").read_bytes()
        except OSError:
            raise RequestError(409, f"rehearsal {run.number} has no page (yet)") from None

    def close(self) -> None:
        """End what runs, and remove all results."""
        for run in self._runs.values():
            if run.child.poll() is None:
                run.child.send_signal(signal.SIGINT)
        for run in self._runs.values():
            try:
                run.child.wait(CANCEL_DEADLINE_S)
            except subprocess.TimeoutExpired:
                run.child.kill()
                run.child.wait()
            shutil.rmtree(run.folder, ignore_errors=True)

    def _known(self, rehearsal: int) -> _Run:
        run = self._runs.get(rehearsal)
        if run is None:
            raise RequestError(404, f"there is no rehearsal {rehearsal}")
        return run


def _text(wanted: values.NewRehearsal) -> tuple[str, str]:
    """Return the text of a plan and its name, after it was read once."""
    if isinstance(wanted.plan, dict):
        text, name = json.dumps(wanted.plan), "plan"
    elif (shipped := plans.shipped().get(wanted.plan.removesuffix(".yaml"))) is not None:
        return shipped, wanted.plan
    else:
        text, name = wanted.plan, "plan"
    try:
        reader.read(text, name)
    except reader.PlanError as error:
        raise RequestError(409, str(error).splitlines()[0]) from error
    return text, name
