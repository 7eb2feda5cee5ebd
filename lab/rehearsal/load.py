"""The load of a rehearsal: clients in processes of their own, and what they have written so far."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jbodlab.kafka_admin import client
from jbodlab.kafka_admin.client import bootstrap_servers
from jbodlab.kafka_admin.configs import alter_topic_configs
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.kafka_admin.properties import AdminProperties
from jbodlab.kafka_admin.topics import describe_topics
from jbodlab.peers.client_security import ClientSecurity
from jbodlab.vocabulary import properties
from jbodlab.vocabulary.ids import TopicPartition
from lab.applications import word_count
from lab.cluster import NotInTimeError, questions, wait_for
from lab.machine import processes, programs
from lab.plan.plan import Changes, Command, Plan, Readers, Streams, Writers
from lab.rehearsal import messages
from lab.rehearsal.facts import (
    CommandFacts,
    Counted,
    Probe,
    ReaderFacts,
    Received,
    Sent,
    StreamsFacts,
    Transaction,
    Verdict,
    WriterFacts,
)
from lab.rehearsal.series import RECEIVED, SENT, TRANSACTION, GrowingRecords, GrowingSeries

KEYS_OF_ONE = 10_000_000
"""Keys of the n-th producer begin with n times this, so that no two share one."""
COMMIT_S = 0.1
"""How long a transaction takes messages, as Kafka Streams has it."""
STOP_DEADLINE_S = 90.0
DRAIN_DEADLINE_S = 180.0
COUNTED_PERIOD_S = 0.5
COUNTED_DEADLINE_S = 90.0
"""For what an application still has to count; a transaction of one that ended lasts 10 s."""
COMMAND_DEADLINE_S = 10.0
LEFT_DEADLINE_S = 5.0
GONE_BY_US = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
"""Exit codes of an application that ended because it was asked to."""
_QUIET = {"log_level": "0"}


class Process:
    """One process of the load, with its files; it runs where this one does.

    Args:
        name: Its name in the plan.
        folder: Gets its log.
        command: Program and arguments.
        environment: Its variables.
        told: Input that it reads from its standard input; a password is in no file of the run.
        owns_terminal: Whether it reads and writes where this process does, and not into its log.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        told: str = "",
        owns_terminal: bool = False,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                processes.ending_with_us(command),
                stdin=None if owns_terminal else subprocess.PIPE,
                stdout=None if owns_terminal else log,
                stderr=None if owns_terminal else log,
                env=environment,
                # In a session of its own, so that all that it starts is found and ended with it.
                start_new_session=True,
            )
        if self._child.stdin is not None:
            # One that has ended already says so by its exit code.
            with contextlib.suppress(BrokenPipeError), self._child.stdin as stdin:
                stdin.write(told.encode())

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._child.poll()

    def ask_to_end(self) -> None:
        """Ask it, and all that it has started, to end."""
        self._signal(signal.SIGTERM)

    def end(self, deadline_s: float) -> int:
        """Wait until it has ended, kill it if it does not, and all that it has left.

        Returns:
            Its exit code.
        """
        try:
            return self._child.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            return self._child.wait(deadline_s)
        finally:
            processes.end(processes.in_session(self._child.pid), deadline_s=LEFT_DEADLINE_S)

    @property
    def last_line(self) -> str:
        """The line that it printed last."""
        lines = [line for line in self.log.read_text("utf-8", "replace").splitlines() if line]
        return lines[-1] if lines else "nothing was printed"

    def _signal(self, number: signal.Signals) -> None:
        if self._child.poll() is None:
            os.killpg(self._child.pid, number)


class Client:
    """One client of ours: what it was told, and where it writes."""

    def __init__(
        self, name: str, folder: Path, config: dict[str, Any], environment: Mapping[str, str]
    ) -> None:
        self.config = {
            **config,
            "output": str(folder / f"{name}.bin"),
            "transactions": str(folder / f"{name}.transactions.bin"),
            "status": str(folder / f"{name}.json"),
        }
        command = programs.command("lab.rehearsal.client")
        self.process = Process(name, folder, command, environment, told=json.dumps(self.config))

    @property
    def output(self) -> Path:
        """Its series."""
        return Path(self.config["output"])

    @property
    def transactions(self) -> Path:
        """Its transactions, if it has any."""
        return Path(self.config["transactions"])

    def status(self) -> dict[str, Any]:
        """Return what it said at its end; empty while it runs, or if it could not say anything."""
        try:
            found: dict[str, Any] = json.loads(Path(self.config["status"]).read_text("utf-8"))
        except FileNotFoundError:
            return {}
        return found


class Asker(threading.Thread):
    """Asks over and over, by a schedule.

    One question after the other; one that is due while another waits is measured
    from then.

    Args:
        ask: Asks once; returns whether the answer is good.
        every_s: Time between two questions.
    """

    def __init__(self, ask: Callable[[], bool], every_s: float) -> None:
        super().__init__(name="asker", daemon=True)
        self.probes: list[Probe] = []
        """It only ever grows."""
        self._ask = ask
        self._every_s = every_s
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()

    def run(self) -> None:
        """Ask until stopped."""
        due = time.monotonic()
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            is_good = self._ask()
            self.probes.append(Probe(int(due * 1e9), time.monotonic_ns(), is_good))
            due += self._every_s


def _asking(address: str, timeout_s: float) -> Callable[[], bool]:
    """Return what asks an application whether it is well."""
    # Whatever proxy this machine goes out by, an application of its own is asked directly.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask() -> bool:
        try:
            with opener.open(address, timeout=timeout_s) as answer:
                return bool(200 <= answer.status < 400)
        except (OSError, ValueError):
            return False

    return ask


def _changing(
    servers: str, security: ClientSecurity | None, topic: str, timeout_s: float
) -> Callable[[], bool]:
    """Return what changes a setting of a topic to another value each time.

    Brokers look at the delay before files are deleted, and no client sees it.
    """
    addresses = bootstrap_servers(servers)
    reached = AdminProperties(
        security=security, request_timeout_ms=round(timeout_s * 1000), patience_s=0
    )
    values = itertools.cycle(("60000", "60001"))

    async def change() -> None:
        async with client.opened(addresses, reached) as connected:
            await alter_topic_configs(connected, {topic: {"file.delete.delay.ms": next(values)}})

    def ask() -> bool:
        try:
            asyncio.run(change())
        except AdminError:
            return False
        return True

    return ask


class Load:
    """All clients of a plan.

    Args:
        plan: The plan that declares them.
        partitions: Number of partitions by topic.
        client: Settings that librdkafka needs to reach the cluster.
        client_files: The files of clients for applications, by the client.
        java_client: Settings that Java's clients need.
        own: How the lab's own client, an administrator, reaches a closed cluster.
        folder: Where their files go.
        environment: Of their processes.
    """

    def __init__(
        self,
        plan: Plan,
        partitions: Mapping[str, int],
        client: Mapping[str, str],
        client_files: Mapping[str, str],
        java_client: Mapping[str, str],
        own: ClientSecurity | None,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self._plan = plan
        self._partitions = partitions
        self._client_config = client
        self._java_client, self._own = java_client, own
        self._bootstrap = client["bootstrap.servers"]
        self._client_files = client_files
        self._folder = folder
        self._environment = dict(environment)
        self._clients: dict[str, Client] = {}
        self._commands: dict[str, Process] = {}
        self._streams: dict[str, Process] = {}
        self._askers: dict[str, Asker] = {}
        self._sent: dict[str, GrowingSeries[Sent]] = {}
        self._transactions: dict[str, GrowingRecords[Transaction]] = {}
        self._received: dict[str, GrowingSeries[Received]] = {}
        self._verdicts: dict[str, Verdict] = {}
        self._torn: dict[str, int] = {}
        self._counted: dict[str, Counted] = {}
        self._exit_codes: dict[str, int] = {}
        self._ended_early: dict[str, str] = {}
        self._topic_ids: dict[str, str] = {}
        self.unread: dict[str, list[int]] = {}
        """Partitions that could not be read to their ends, by topic."""
        self.stuck: list[TopicPartition] | None = None
        """Those of them whose last stable offset stood before the end; None before the read."""
        self.deleted: set[str] = set()
        """Topics that somebody deleted during the run."""

    def start(self) -> None:
        """Start all but the commands that wait for the steady state.

        Raises:
            OSError: a command cannot be executed.
            NoKafkaError: the jars of an application, or Java, are missing.
        """
        for load in self._plan.load:
            if isinstance(load, Command) and shutil.which(load.command[0]) is None:
                raise FileNotFoundError(f"program {load.command[0]} not found")
        self._topic_ids = self._ids_of_topics()
        for number, load in enumerate(self._plan.load):
            match load:
                case Writers():
                    client = self._client(load.name, self._writer(load, number * KEYS_OF_ONE))
                    self._sent[load.name] = GrowingSeries(client.output, Sent, SENT)
                    if load.transactional:
                        self._transactions[load.name] = GrowingRecords(
                            client.transactions, Transaction, TRANSACTION
                        )
                case Readers():
                    client = self._client(load.name, self._reader(load))
                    series = GrowingSeries(client.output, Received, RECEIVED)
                    self._received[load.name] = series
                case Command() if not load.is_foreground:
                    self._start_command(load)
                case Streams():
                    self._start_streams(load)
                case Changes():
                    change = _changing(self._bootstrap, self._own, load.changes, load.timeout_s)
                    self._ask_again(load.name, change, load.every_s)

    def go_on(self) -> None:
        """Start the commands that wait for the steady state, which is reached."""
        for load in self._plan.load:
            if isinstance(load, Command) and load.is_foreground:
                self._start_command(load)

    def check(self) -> dict[str, str]:
        """Return who has ended by itself, with the last thing it said."""
        for name, process in self._processes():
            code = process.exit_code
            if code is not None and name not in self._ended_early:
                said = self._clients[name].status().get("failure") if name in self._clients else ""
                why = said or f"exit code {code}; {process.last_line}"
                self._ended_early[name] = why
                self._exit_codes[name] = code
        return self._ended_early

    def stop(self) -> None:
        """Ask all to end and wait for it: producers wait for their last answers.

        Applications go on: they have to count what producers have sent until now.
        """
        self.check()
        for asker in self._askers.values():
            asker.stop()
        ending = [each for each in self._processes() if each[0] not in self._streams]
        for _, process in ending:
            process.ask_to_end()
        for name, process in ending:
            self._end(name, process)
        for sent in self._sent.values():
            sent.close()
        for transactions in self._transactions.values():
            transactions.close()

    def _end(self, name: str, process: Process) -> None:
        """Wait until one has ended that was asked to."""
        code = process.end(COMMAND_DEADLINE_S if name in self._commands else STOP_DEADLINE_S)
        self._exit_codes.setdefault(name, 0 if code in GONE_BY_US else code)

    def kill(self) -> None:
        """End all at once."""
        for asker in self._askers.values():
            asker.stop()
        for _, process in self._processes():
            process.ask_to_end()
        for _, process in self._processes():
            process.end(1.0)
        for name in self._streams:
            shutil.rmtree(self._state_dir(name), ignore_errors=True)

    def judge(self) -> None:
        """Read all topics of producers to their ends, and compare with what was acknowledged.

        Then wait until applications have counted what was read, end them, and read their topics.
        """
        written = list(dict.fromkeys(writer.topic for writer in self._plan.writers))
        topics = list(dict.fromkeys((*written, *(each.source for each in self._plan.streams))))
        isolation = {r.topic: r.isolation for r in self._plan.load if isinstance(r, Readers)}
        isolation |= {w.topic: "read_committed" for w in self._plan.writers if w.transactional}
        ids = self._ids_of_topics()
        for topic in topics:
            read: list[Received] = []
            if ids and ids.get(topic) != self._topic_ids.get(topic):
                # It was deleted; one of the same name that is there is another topic.
                self.deleted.add(topic)
                self.unread[topic] = list(range(self._partitions[topic]))
            else:
                read = self._drain(topic, isolation.get(topic, "read_uncommitted"))
            for number, load in enumerate(self._plan.load):
                if isinstance(load, Writers) and load.topic == topic:
                    first = number * KEYS_OF_ONE
                    mine = [one for one in read if first <= one.key < first + KEYS_OF_ONE]
                    acked = [one for one in self._sent[load.name].read() if one.is_acked]
                    unread = self.unread.get(topic, ())
                    self._verdicts[load.name] = messages.judge(acked, mine, unread)
                    if load.transactional:
                        self._torn[load.name] = self._count_torn(load, first, mine)
            for load in self._plan.streams:
                if load.source == topic:
                    self._judge_counts(load, read)

    def _judge_counts(self, load: Streams, lines: Sequence[Received]) -> None:
        """Wait until all is counted, or too much, or nothing more will be; then end it."""
        process = self._streams[load.name]
        deadline = time.monotonic() + COUNTED_DEADLINE_S
        while process.exit_code is None and time.monotonic() < deadline:
            found = messages.count(lines, self._drain(load.target, "read_committed"))
            if not found.missing or found.excess:
                break
            time.sleep(COUNTED_PERIOD_S)
        process.ask_to_end()
        self._end(load.name, process)
        # Counts that it has committed at its end count as well.
        counts = self._drain(load.target, "read_committed")
        if not self.unread.keys() & {load.source, load.target}:
            self._counted[load.name] = messages.count(lines, counts)

    def _count_torn(self, load: Writers, first_key: int, read: Iterable[Received]) -> int:
        partitions, unread = self._partitions[load.topic], self.unread.get(load.topic, ())
        return messages.torn(
            self._transactions[load.name].read(),
            {one.sequence * load.keys + one.key - first_key for one in read},
            lambda number: number % load.keys % partitions in unread,
        )

    def _ids_of_topics(self) -> dict[str, str]:
        """Return the ids of the topics of producers that are there; empty if nobody answers."""
        names = list(dict.fromkeys(writer.topic for writer in self._plan.writers))
        if not names:
            return {}
        try:
            found = questions.ask(
                bootstrap_servers(self._bootstrap),
                self._own,
                lambda client: describe_topics(client, names),
            )
        except AdminError:
            return {}
        return {name: str(found[name].topic_id) if name in found else "" for name in names}

    # Their facts so far

    def writers(self, begin_ns: int, end_ns: int) -> dict[str, WriterFacts]:
        """Return what producers did with the messages that were due in a span of time."""
        found = {}
        for load in self._plan.writers:
            series = self._sent[load.name]
            sent = series.since(begin_ns)
            status = self._clients[load.name].status()
            last_ns = min(end_ns, status.get("end_ns", end_ns))
            found[load.name] = WriterFacts(
                topic=load.topic,
                due=max(0, int((last_ns - begin_ns) / 1e9 * load.rate)),
                sent=sent,
                earlier=series.earlier,
                last_due={
                    partition: due_ns
                    for partition, due_ns in series.last_due.items()
                    if begin_ns <= due_ns
                },
                errors=_names(series.errors),
                verdict=self._verdicts.get(load.name),
                failure=self._ended_early.get(load.name, ""),
                is_topic_deleted=load.topic in self.deleted,
                transactions=self._begun(load, begin_ns),
                torn=self._torn.get(load.name),
            )
        return found

    def _begun(self, load: Writers, begin_ns: int) -> list[Transaction] | None:
        if not load.transactional:
            return None
        series = self._transactions[load.name]
        return [one for one in (*series.read(), *series.unanswered) if one.begun_ns >= begin_ns]

    def readers(self, begin_ns: int, end_ns: int) -> dict[str, ReaderFacts]:
        """Return what consumers got since a time; behind the end groups end, and rebalance."""
        found = {}
        for load in self._plan.load:
            if isinstance(load, Readers):
                status = self._clients[load.name].status()
                assigned_ns = status.get("assigned_ns", [])
                found[load.name] = ReaderFacts(
                    topic=load.topic,
                    received=self._received[load.name].since(begin_ns),
                    errors=status.get("errors", []),
                    rebalances=sum(begin_ns <= at_ns <= end_ns for at_ns in assigned_ns),
                    failure=self._ended_early.get(load.name, ""),
                )
        return found

    def commands(self, begin_ns: int) -> dict[str, CommandFacts]:
        """Return what the user's applications, and writers of metadata, did since a time."""
        found = {}
        for load in self._plan.load:
            if isinstance(load, Command | Changes):
                asker = self._askers.get(load.name)
                probes = [] if asker is None else list(asker.probes)
                found[load.name] = CommandFacts(
                    probes=[one for one in probes if counts(load, one, begin_ns)],
                    exit_code=self._exit_codes.get(load.name),
                )
        return found

    def streams(self) -> dict[str, StreamsFacts]:
        """Return what applications of Kafka Streams did."""
        return {
            name: StreamsFacts(
                counted=self._counted.get(name), exit_code=self._exit_codes.get(name)
            )
            for name in self._streams
        }

    # Processes

    def _processes(self) -> list[tuple[str, Process]]:
        ours = [(name, client.process) for name, client in self._clients.items()]
        return [*ours, *self._commands.items(), *self._streams.items()]

    def _client(self, name: str, config: dict[str, Any]) -> Client:
        client = Client(name, self._folder, config, self._environment)
        self._clients[name] = client
        return client

    def _writer(self, load: Writers, first_key: int) -> dict[str, Any]:
        transactional = {"transactional.id": load.transactional_id} if load.transactional else {}
        return {
            "role": "write-transactions" if load.transactional else "write",
            "commit": load.commit_s or COMMIT_S,
            "topic": load.topic,
            "partitions": self._partitions[load.topic],
            "rate": load.rate,
            "size": load.size_bytes,
            "keys": load.keys,
            "first_key": first_key,
            "client": {
                **self._client_config,
                "acks": load.acks,
                "enable.idempotence": load.is_idempotent,
                # Messages that wait for a partition without leader must not hold up the others.
                "queue.buffering.max.messages": 1_000_000,
                **transactional,
                **_QUIET,
                **load.client,
            },
        }

    def _reader(self, load: Readers) -> dict[str, Any]:
        return {
            "role": "read",
            "topic": load.topic,
            "partitions": self._partitions[load.topic],
            "group": load.group,
            "client": {
                **self._client_config,
                "group.id": load.group or f"jbodlab-rehearsal-{load.name}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": bool(load.group),
                "isolation.level": load.isolation,
                **_QUIET,
                **load.client,
            },
        }

    def _drain(self, topic: str, isolation: str) -> list[Received]:
        name = f"drain-{topic}"
        reader = Readers(name=name, topic=topic, isolation=isolation)
        config = {**self._reader(reader), "role": "drain"}
        client = Client(name, self._folder, config, self._environment)
        try:
            with contextlib.suppress(NotInTimeError):
                wait_for(
                    f"a full read of {topic}",
                    lambda: client.process.exit_code is not None,
                    DRAIN_DEADLINE_S,
                )
        finally:
            client.process.ask_to_end()
            client.process.end(1.0)
        stuck = [TopicPartition(topic, each) for each in client.status().get("stuck", ())]
        # A topic may be read again.
        self.stuck = [*(each for each in self.stuck or () if each.topic != topic), *stuck]
        self.unread.pop(topic, None)
        everything = list(range(self._partitions[topic]))
        if unread := client.status().get("unread", everything):
            self.unread[topic] = unread
        return GrowingSeries(client.output, Received, RECEIVED).read()

    def _start_streams(self, load: Streams) -> None:
        settings = {
            **self._java_client,
            "application.id": load.application_id,
            "processing.guarantee": "exactly_once_v2",
            "state.dir": str(self._state_dir(load.name)),
            **load.client,
        }
        command = [*word_count.command(load.release), "/dev/stdin", load.source, load.target]
        self._streams[load.name] = Process(
            load.name, self._folder, command, self._variables, told=properties.render(settings)
        )

    def _state_dir(self, name: str) -> Path:
        """Return the folder of an application's store, which is removed with it."""
        return self._folder / f"{name}.state"

    @property
    def _variables(self) -> dict[str, str]:
        """The environment of a program as it runs elsewhere: with nothing of ours in its path."""
        return {
            **os.environ,
            processes.CLUSTER_VARIABLE: self._environment[processes.CLUSTER_VARIABLE],
            "JBODLAB_BOOTSTRAP": self._bootstrap,
            **{
                f"JBODLAB_CLIENT_FILE_{client.upper()}": file
                for client, file in self._client_files.items()
            },
        }

    def _start_command(self, load: Command) -> None:
        filled = [self._fill(word) for word in load.command]
        self._commands[load.name] = Process(
            load.name,
            self._folder,
            filled,
            self._variables,
            owns_terminal=load.is_foreground,
        )
        if load.probe:
            self._ask_again(
                load.name, _asking(self._fill(load.probe), load.timeout_s), load.every_s
            )

    def _ask_again(self, name: str, ask: Callable[[], bool], every_s: float) -> None:
        self._askers[name] = Asker(ask, every_s)
        self._askers[name].start()

    def _fill(self, word: str) -> str:
        return word.replace("{bootstrap}", self._bootstrap)


def counts(load: Command | Changes, one: Probe, begin_ns: int) -> bool:
    """Return whether a probe is of the time that is measured.

    Of changes all count that end in it: a gap may begin with one that was due before.
    """
    return (one.done_ns if isinstance(load, Changes) else one.due_ns) >= begin_ns


def _names(codes: Iterable[int]) -> dict[int, str]:
    from confluent_kafka import KafkaError

    return {code: KafkaError(code).name() for code in codes}
