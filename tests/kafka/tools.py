"""Apache Kafka's command line tools, run in one Java process that stays: see ToolServer.java."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple

from lab.machine.waiting import wait_for
from tests.kafka.jars import CACHE, RELEASE, compiled, fetched

TOPICS = "org.apache.kafka.tools.TopicCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
PRODUCER_SPEED = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
MESSAGE_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
REPLICA_VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"

STORAGE = "kafka.tools.StorageTool"

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options of Java processes that live for seconds: they compile quickly, not well."""
OPTIONS = (
    *(*SHORT_LIVED, "-Xmx256m"),
    *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8"),
)
CALL_DEADLINE_S = 120.0
END_DEADLINE_S = 10.0


class Printed(NamedTuple):
    """Output that a tool left behind: its exit code and both outputs."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of its output."""
        return self.out.splitlines()


class KafkaTools:
    """Runs tools of one release; the Java process that stays starts with the first `run`.

    ToolServer.java is of `RELEASE`: later ones have `Exit` elsewhere, and are for `run_alone`.

    Attributes:
        jars: The folder of the release's jars.
    """

    def __init__(self, release: str = RELEASE, cache: Path = CACHE) -> None:
        """Fetch and compile what is needed.

        Raises:
            NoKafkaError: that is impossible here, with the reason.
        """
        self.jars = fetched(release, cache)
        self._class_path = f"{compiled(cache)}:{self.jars}/*"
        self._one_call = threading.Lock()
        self._java: subprocess.Popen[str] | None = None
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with this object
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(self, main: str, *arguments: object, text: str = "") -> Printed:
        """Run a tool here, with a text as its standard input.

        It must not end the Java process but with Kafka's own `Exit`, nor leave work to the end of
        the process in another way, as VerifiableProducer does.
        """
        with self._one_call:
            return self._run(main, *map(str, arguments), text=text)

    def _run(self, main: str, *arguments: str, text: str) -> Printed:
        java = self._java or self._start()
        request = {"main": main, "arguments": arguments, "input": text}
        assert java.stdin is not None
        try:
            java.stdin.write(f"{json.dumps(request)}\n")
            java.stdin.flush()
            answer = self._answers.get(timeout=CALL_DEADLINE_S)
        except (queue.Empty, BrokenPipeError):
            answer = ""
        if not answer:
            code = java.poll()
            self._end()
            why = "no answer in time" if code is None else f"it ended the Java process with {code}"
            raise AssertionError(f"{main} {arguments}: {why}; {self._last_words()}")
        return Printed(**json.loads(answer))

    def run_alone(self, main: str, *arguments: object, text: str = "") -> Printed:
        """Run a tool in a process of its own."""
        done = subprocess.run(
            ["java", *OPTIONS, "-cp", self._class_path, main, *map(str, arguments)],
            input=text.encode(),
            capture_output=True,
            timeout=CALL_DEADLINE_S,
            check=False,
        )
        return Printed(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_until(self, said: str, main: str, *arguments: object) -> str:
        """Run a tool that never ends, in a process of its own, until it has said something.

        Returns:
            All that it has printed by then.
        """
        with tempfile.TemporaryFile("w+") as output:
            java = subprocess.Popen(
                ["java", *OPTIONS, "-cp", self._class_path, main, *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

            def found() -> str:
                output.seek(0)
                return output.read()

            try:
                wait_for(
                    f"{said!r} of {main}",
                    lambda: java.poll() is not None or said in found(),
                    CALL_DEADLINE_S,
                    last_seen=found,
                )
                assert said in found(), found()
                return found()
            finally:
                java.kill()
                java.wait()

    def close(self) -> None:
        """End the Java process, if there is one."""
        self._end()
        self._said.close()

    def _start(self) -> subprocess.Popen[str]:
        java = self._java = subprocess.Popen(
            ["java", *OPTIONS, "-cp", self._class_path, "ToolServer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            encoding="utf-8",
            cwd=Path("/"),
        )
        self._answers = queue.SimpleQueue()
        threading.Thread(target=_read, args=(java, self._answers), daemon=True).start()
        return java

    def _end(self) -> None:
        java, self._java = self._java, None
        if java is None:
            return
        assert java.stdin is not None
        try:
            java.stdin.close()
            java.wait(END_DEADLINE_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            java.kill()
            java.wait()

    def _last_words(self) -> str:
        self._said.seek(0)
        return self._said.read()[-2_000:]


def _read(java: subprocess.Popen[str], answers: queue.SimpleQueue[str]) -> None:
    """Hand on every line; an empty one at the end."""
    assert java.stdout is not None
    with java.stdout:
        for line in java.stdout:
            answers.put(line)
    java.wait()
    answers.put("")
