"""A standalone Spark cluster: a master and workers, each a process with a folder of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyspark

from lab.machine.processes import in_session, send
from lab.machine.waiting import wait_for
from tests.analytics.s3_server import answer, free_port

SPARK_HOME = Path(pyspark.__file__).parent
OURS = (
    *("analytics", "jbodlab", "broker", "controller", "storage_tool", "admin_tool", "lab"),
    *("fault_injection", "pyspark_kraft_metadata"),
)
START_DEADLINE_S = 60


@dataclass(slots=True, kw_only=True)
class StandaloneSpark:
    """A running cluster.

    Attributes:
        folder: With a folder for each process.
        libraries: Packages on a node: third parties' packages, none of ours.
        workers: Their processes; each leads a session with its executors.
    """

    folder: Path
    libraries: Path
    master: str
    variables: Mapping[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def submit(
        self,
        starter: Path,
        archive: Path,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        jars: Sequence[Path],
        more: Mapping[str, str],
    ) -> subprocess.Popen[str]:
        """Start `spark-submit` of a packed job: a program, the archive of its modules, and more.

        The variables are those of driver and executors; the session gets the jars besides.
        """
        driver = self.folder / "driver"
        driver.mkdir(exist_ok=True)
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "1g",
            "spark.executorEnv.PYTHONPATH": str(self.libraries),
            "spark.jars": ",".join(map(str, jars)),
            **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
            **more,
        }
        return subprocess.Popen(
            [
                str(SPARK_HOME / "bin" / "spark-submit"),
                *("--master", self.master, "--py-files", str(archive)),
                *(part for pair in settings.items() for part in ("--conf", "=".join(pair))),
                *(str(starter), *arguments),
            ],
            env={**self.variables, **variables, "PYTHONPATH": str(self.libraries)},
            cwd=driver,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start_worker(self) -> None:
        """Start another worker of one core."""
        own = self.folder / f"worker-{len(self.workers)}"
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(own / "work"))
        where = ("--host", "127.0.0.1", "--webui-port", "0", *size, self.master)
        self.workers.append(_start(self, own.name, "deploy.worker.Worker", *where))

    def kill_worker(self) -> None:
        """Kill the last worker with its executors, as the loss of a node does."""
        kill_session(self.workers[-1])


def kill_session(leader: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill a process that leads a session, and all in it."""
    for process in in_session(leader.pid):
        send(process, signal.SIGKILL)
    leader.wait()


@contextmanager
def standalone_spark(folder: Path, workers: int) -> Iterator[StandaloneSpark]:
    """Run a master and workers until the end of the block."""
    libraries = folder / "libraries"
    libraries.mkdir(parents=True)
    for entry in SPARK_HOME.parent.iterdir():
        if entry.name not in OURS and not entry.name.startswith(("jbodlab", "_editable")):
            (libraries / entry.name).symlink_to(entry)
    port, page = free_port(), free_port()
    passed = ("PATH", "HOME", "JAVA_HOME")
    variables = {
        **{name: os.environ[name] for name in passed if name in os.environ},
        "PYSPARK_PYTHON": str(Path(sys.executable).resolve()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    cluster = StandaloneSpark(
        folder=folder,
        libraries=libraries,
        master=f"spark://127.0.0.1:{port}",
        variables=variables,
    )
    where = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
    master = _start(cluster, "master", "deploy.master.Master", *where)
    try:
        for _ in range(workers):
            cluster.start_worker()
        all_known = partial(_are_known, [master, *cluster.workers], page)
        wait_for(f"the registration of {workers} workers", all_known, START_DEADLINE_S)
        yield cluster
    finally:
        for process in (*reversed(cluster.workers), master):
            kill_session(process)


def _start(
    cluster: StandaloneSpark, name: str, what: str, *arguments: str
) -> subprocess.Popen[bytes]:
    folder = cluster.folder / name
    folder.mkdir()
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.{what}", *arguments],
            env={**cluster.variables, "SPARK_LOCAL_DIRS": str(folder / "local")},
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _are_known(master_and_workers: Sequence[subprocess.Popen[bytes]], page: int) -> bool:
    """Return whether the master knows all workers."""
    known = answer(f"http://127.0.0.1:{page}/json/", *master_and_workers)
    return known.count(b'"state" : "ALIVE"') == len(master_and_workers) - 1
