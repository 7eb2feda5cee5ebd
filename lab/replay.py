"""The end of the demo: `jbodlab replay` turns the controller's log into tables and a report."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import time
from pathlib import Path

from lab.errors import LabError
from lab.machine import processes, programs
from lab.machine.interrupts import Interrupts
from lab.machine.kafka_jars import java
from lab.results import Results

DEADLINE_S = 240.0
END_DEADLINE_S = 5.0
JAVA_MIN = 17


def check_requirements() -> None:
    """Find out whether Spark can run here.

    Raises:
        LabError: it cannot, with the reason.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise LabError("PySpark is missing: pip install 'jbodlab[analytics]'")
    found, text = shutil.which(java()), ""
    if found:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            asked = [found, "-version"]
            done = subprocess.run(asked, capture_output=True, check=False, timeout=30)
            text = done.stderr.decode(errors="replace")
    match = re.search(r'version "(\d+)', text)
    if match is None:
        raise LabError(f"no Java found, which Spark needs ({JAVA_MIN} or newer)")
    if int(match[1]) < JAVA_MIN:
        raise LabError(f"{found} is version {match[1]}, Spark needs {JAVA_MIN} or newer")
    _with_a_name()


def _with_a_name() -> list[str]:
    """Return what to run Spark under: nothing, but for a user whom the system has no name for.

    Spark asks for the name of its user and does not start without one. In a user namespace of its
    own the process has one, and what it writes still belongs to the same user.

    Raises:
        LabError: the user has no name, and there are no such namespaces.
    """
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        under = ["unshare", "--map-root-user"]
        try:
            done = subprocess.run([*under, "true"], capture_output=True, check=False, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            done = None
        if done is None or done.returncode:
            raise LabError(
                f"uid {os.geteuid()} has no name in the list of users, without which Spark does "
                "not start"
            ) from None
        return under
    return []


def run(results: Results, root: Path, state_dir: Path, interrupts: Interrupts) -> str:
    """Replay the metadata log that is kept among the results of a cluster.

    Args:
        results: Has the log; gets the tables, the report, and what else is printed.
        root: Folder of the cluster.
        state_dir: Where clusters and faults are written down.
        interrupts: Held back while the process starts.

    Returns:
        The problem, empty if there is none.
    """
    variables = programs.environment(root, processes.own_user(), state_dir)
    metadata, tables, report = results.metadata, results.tables, results.report
    log = results.logs / "replay.log"
    program = [*_with_a_name(), *programs.command("analytics.job")]
    command = [*program, "--input", str(metadata), "--results", str(tables)]
    with report.open("wb") as out, log.open("wb") as errors:
        with interrupts.deferred():
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                cwd=report.parent,
                env=variables,
                start_new_session=True,
            )
        try:
            code = child.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            return f"the replay did not end within {DEADLINE_S:.0f} s, see {log}"
        finally:
            # Spark's JVM and its Python workers are in the same session.
            began = time.monotonic()
            processes.end(processes.in_session(child.pid), deadline_s=END_DEADLINE_S)
            child.wait(max(0.1, END_DEADLINE_S - (time.monotonic() - began)))
    return "" if code == 0 else f"the replay ended with exit code {code}, see {log}"
