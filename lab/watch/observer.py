"""Watches a cluster from all sides while a rehearsal lasts, on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from jbodlab.cli.lab_state import NodeState
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import ClusterPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import (
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    DirectoryId,
    TopicPartition,
)
from lab.cluster import kafka_metrics, questions
from lab.cluster.kafka_metrics import GaugeChange, GaugeLines
from lab.cluster.picture import of_node
from lab.cluster.questions import ClusterView, Offsets, OpenTransaction
from lab.machine import processes
from lab.machine.growing import GrowingLog, GrowingOutput
from lab.watch.events import Clock, Event, Sample
from lab.watch.server_log import FailureLines
from lab.watch.sightings import LeadingController, MetadataNews, PolledNews, TransactionNews

POLL_PERIOD_S = 0.05
READ_PERIOD_S = 0.02
TICK_S = 0.01
BUSY_SHARE = 10
"""An answer is not to take more than a tenth of the time, of the broker's and of this process."""
PERIOD_MAX_S = 0.5
CLOCK_PERIOD_S = 1.0
METRICS_AGAIN_S = 2.0
CLOCK_READINGS = 5
ANSWER_DEADLINE_S = 1.0
UNTOLD_AFTER = 10
"""So many times in a row a broker that serves may owe what it says of its directories."""
TRANSACTIONS_PERIOD_S = 0.5
TRANSACTIONS_PERIOD_NS = 500_000_000
OPEN_LONG_MS = 1_000
"""Transactions that are open for so long are shown; most are shorter."""
MS = 1_000_000


def both_clocks() -> tuple[int, int]:
    """Return the monotonic clock and the wall clock in one moment, as near as they can be read.

    Between two readings this process may have to wait: the nearest of some pairs is taken.
    """
    pairs = []
    for _ in range(CLOCK_READINGS):
        before, wall_ns, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        pairs.append((after - before, (before + after) // 2, wall_ns))
    _, monotonic_ns, wall_ns = min(pairs)
    return monotonic_ns, wall_ns


class Observer(threading.Thread):
    """Asks brokers, reads what servers write, and keeps the events.

    Args:
        brokers: Whom to ask; those with a `log_file` are read as well.
        places: The directories by their ids.
        metadata_logs: Folders that hold the logs of the controllers; none if they cannot be read.
        topics: The topics that samples are about; None: all.
        period_s: Time between two questions to one broker.
        are_ours: Whether brokers are asked for conditions and causes, which others do not know.
        metrics: Command that prints the metrics of a broker again and again, by broker id.
        transactional_ids: Those whose coordinators are watched as well, by the producers' names.
        applications: The same for applications of Kafka Streams, whose transactional ids begin so.
    """

    def __init__(
        self,
        brokers: Iterable[NodeState],
        places: Mapping[DirectoryId, Place],
        metadata_logs: Sequence[Path],
        topics: Iterable[str] | None,
        *,
        period_s: float = POLL_PERIOD_S,
        are_ours: bool = False,
        metrics: Mapping[int, Sequence[str]] | None = None,
        transactional_ids: Mapping[str, str] | None = None,
        applications: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name="observer", daemon=True)
        self.events: list[Event] = []
        """It only ever grows; not sorted."""
        self.samples: list[Sample] = []
        self.noise_ns = 0
        self._view: ClusterView | None = None
        """The last answer to a question for metadata."""
        self._log_dirs: dict[int, list[DescribedLogDir] | None] = {}
        """Last answer of each broker about its directories, None where it owes that."""
        self._before: dict[int, list[DescribedLogDir]] = {}
        """The last answer that each gave."""
        self._untold: set[int] = set()
        """Brokers that serve, and yet owe that answer."""
        self._brokers = list(brokers)
        self._paths = {
            node.node_id: {path: number for number, path in enumerate(node.log_dirs, start=1)}
            for node in self._brokers
        }
        self._topics = None if topics is None else frozenset(topics)
        self._period_s = self._pause_max_s = period_s
        self._are_ours = are_ours
        self._transactional_ids = dict(transactional_ids or {})
        self._applications = dict(applications or {})
        """Those of which no transactional id is known yet."""
        self._coordinators: dict[str, TopicPartition] = {}
        self._polled = PolledNews()
        self._transactions = TransactionNews()
        self._metadata = MetadataNews(places)
        self._log = None if not metadata_logs else GrowingLog(metadata_logs)
        self._outputs = {
            node.node_id: GrowingOutput(Path(node.log_file))
            for node in self._brokers
            if node.log_file
        }
        self._failures = {
            node.node_id: FailureLines(node.log_dirs) for node in self._brokers if node.log_file
        }
        self._metrics = dict(metrics or {})
        self._clock = Clock()
        self._stopping = threading.Event()

    def begin(self) -> None:
        """Start, and wait until what lay in the files before has been read."""
        self._clock.sample(*both_clocks())
        for output in self._outputs.values():
            asyncio.run(output.read())  # Lines that were printed before are no news.
        self.start()

    def stop(self) -> None:
        """Look no more."""
        self.end_soon()
        if self.is_alive():
            self.join(10 * ANSWER_DEADLINE_S)

    def end_soon(self) -> None:
        """Look no more, without waiting for the last answers."""
        self._stopping.set()

    def forget_noise(self) -> None:
        """Measure delays from now on."""
        self.noise_ns = 0

    def take(self) -> list[Event]:
        """Return the events since the last call and forget them, for who watches for ever."""
        taken = self.events[:]
        # Both at once for the other thread, which only ever adds at the end.
        del self.events[: len(taken)]
        del self.samples[:-1]
        return taken

    @property
    def picture(self) -> ClusterPicture:
        """The cluster as it was told last; of partitions those that are watched."""
        partitions = self._polled.partitions
        eligible = {
            key: replace(partitions[key], **found._asdict())
            for key, found in list(self._metadata.eligible.items())
            if key in partitions
        }
        return ClusterPicture(
            brokers=[
                of_node(
                    node,
                    self._log_dirs.get(node.node_id),
                    dict(self._paths[node.node_id]),
                    serves=node.node_id in self._untold,
                    before=self._before.get(node.node_id),
                )
                for node in self._brokers
            ],
            listed=self._view.broker_ids if self._view else None,
            partitions={**partitions, **eligible} if eligible else partitions,
            coordinators=dict(self._coordinators),
        )

    @property
    def leading_controller(self) -> LeadingController | None:
        """The controller that leads the metadata log; None where that is not known."""
        return self._metadata.leader

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """Those that are open for longer than `OPEN_LONG_MS`."""
        return self._transactions.open

    @property
    def stuck(self) -> dict[TopicPartition, Offsets]:
        """Partitions whose last stable offset stands still, before the high watermark."""
        return self._transactions.stuck

    def is_ours(self, partition: TopicPartition) -> bool:
        """Return whether a partition is watched: of the topics, or one that coordinates."""
        if self._topics is None or partition.topic in self._topics:
            return True
        return partition in self._coordinators.values()

    def run(self) -> None:
        """Watch until stopped."""
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._poll_metadata())
            for node in self._brokers:
                group.create_task(self._poll_log_dirs(node))
                group.create_task(self._poll_transactions(node))
                if command := self._metrics.get(node.node_id):
                    group.create_task(self._read_metrics(node.node_id, command))
            group.create_task(self._read_files())
            group.create_task(self._tick())

    async def _poll_metadata(self) -> None:
        turn, connection = 0, None
        while not self._stopping.is_set():
            asked = time.monotonic()
            try:
                if connection is None:
                    node = self._brokers[turn % len(self._brokers)]
                    connection = await questions.connect(node, ANSWER_DEADLINE_S)
                view = await questions.cluster_view(connection, ANSWER_DEADLINE_S)
            except questions.NO_ANSWER:
                if connection is not None:
                    connection.close()
                # The next one is asked at once: which broker answers is not what is measured.
                turn, connection = turn + 1, None
                if turn % len(self._brokers):
                    continue
            else:
                now = time.monotonic_ns()
                self._view = view
                self._find_coordinators(view)
                ours = {
                    partition: found
                    for partition, found in view.partitions.items()
                    if self.is_ours(partition)
                }
                self.events += self._polled.partitions_are(ours, now, self._error_ns)
                self.samples.append(self._sample(now))
            await self._pause(asked)
        if connection is not None:
            connection.close()

    def _find_coordinators(self, view: ClusterView) -> None:
        """Look where each id is coordinated, once the topic is there."""
        if len(self._coordinators) == len(self._transactional_ids):
            return
        count = sum(one.topic == TRANSACTION_STATE_TOPIC for one in view.partitions)
        if count:
            self._coordinators = {
                name: TopicPartition(TRANSACTION_STATE_TOPIC, coordinator_partition(one, count))
                for name, one in self._transactional_ids.items()
            }

    def _find_applications(self, transactional_ids: Iterable[str]) -> None:
        """Look for ids of applications: one of each is watched, that of its first thread."""
        for one in sorted(transactional_ids):
            for name, application_id in list(self._applications.items()):
                if one.startswith(f"{application_id}-"):
                    self._transactional_ids[name] = one
                    del self._applications[name]

    async def _poll_transactions(self, node: NodeState) -> None:
        """Ask a broker what it coordinates and how far readers come, if there are transactions."""
        connection = None
        while not self._stopping.is_set():
            asked = time.monotonic()
            view = self._view
            try:
                if view is not None and view.has_transactions:
                    if connection is None:
                        connection = await questions.connect(node, ANSWER_DEADLINE_S)
                    led = [
                        partition
                        for partition, found in view.partitions.items()
                        if found.leader == node.node_id and self._is_read(partition)
                    ]
                    found = await questions.open_transactions(
                        connection, OPEN_LONG_MS, ANSWER_DEADLINE_S
                    )
                    offsets = await questions.offsets(connection, led, ANSWER_DEADLINE_S)
                    self.events += self._transactions.answered(
                        node.node_id, found, offsets, time.monotonic_ns(), TRANSACTIONS_PERIOD_NS
                    )
                    if self._applications:
                        self._find_applications(
                            await questions.transactional_ids(connection, ANSWER_DEADLINE_S)
                        )
            except questions.NO_ANSWER:
                if connection is not None:
                    connection.close()
                connection = None
            await asyncio.sleep(max(TRANSACTIONS_PERIOD_S, BUSY_SHARE * (time.monotonic() - asked)))
        if connection is not None:
            connection.close()

    def _is_read(self, partition: TopicPartition) -> bool:
        """Return whether readers of committed records may read a partition."""
        return partition.topic not in INTERNAL_TOPICS and self.is_ours(partition)

    async def _poll_log_dirs(self, node: NodeState) -> None:
        connection, paths = None, self._paths[node.node_id]
        owed = 0
        while not self._stopping.is_set():
            asked = time.monotonic()
            found, serves = None, True
            try:
                if connection is None:
                    connection = await questions.connect(node, ANSWER_DEADLINE_S)
                found = await questions.log_dirs(
                    connection, ANSWER_DEADLINE_S, are_ours=self._are_ours
                )
            except questions.NO_ANSWER:
                if connection is not None:
                    connection.close()
                connection = None
                serves = await questions.ask_cluster_view(node, ANSWER_DEADLINE_S) is not None
                owed += 1
                if serves and owed < UNTOLD_AFTER:
                    # Only what it looks up on a slow disk takes longer than this.
                    await asyncio.sleep(self._period_s)
                    continue
            else:
                owed = 0
            if not paths and found:
                # Nobody has said where they lie, so the broker's own order has to do.
                paths.update({view.path: number for number, view in enumerate(found, start=1)})
            now = time.monotonic_ns()
            if found is None and serves:
                self._untold.add(node.node_id)
            else:
                self._untold.discard(node.node_id)
            self._log_dirs[node.node_id] = found
            if found is not None:
                self._before[node.node_id] = found
            self.events += self._polled.log_dirs_are(
                node.node_id, paths, found, now, self._error_ns, serves=serves
            )
            await self._pause(asked)
        if connection is not None:
            connection.close()

    async def _pause(self, asked_s: float) -> None:
        """Wait for the next question; who needs long for an answer is asked less often."""
        took_s = time.monotonic() - asked_s
        pause_s = max(self._period_s, min(BUSY_SHARE * took_s, PERIOD_MAX_S))
        self._pause_max_s = max(self._pause_max_s, pause_s)
        await asyncio.sleep(pause_s)

    @property
    def _error_ns(self) -> int:
        return int(self._pause_max_s * 1e9)

    def _sample(self, now: int) -> Sample:
        views = self._polled.partitions.values()
        full = sum(len(view.isr) == len(view.replicas) for view in views)
        return Sample(
            t_ns=now,
            isr_full=full / len(views) if views else 0.0,
            online_dirs=len(self._polled.online),
            offline_partitions=sum(view.leader < 0 for view in views),
            under_replicated=len(views) - full,
        )

    async def _read_files(self) -> None:
        while not self._stopping.is_set():
            for broker, output in self._outputs.items():
                with contextlib.suppress(OSError):
                    for line in await output.read():
                        self._look_at(broker, line)
            if self._log is not None:
                with contextlib.suppress(OSError):
                    for batch in await self._log.read():
                        at_ns = self._clock.monotonic(batch.timestamp_ms * MS)
                        err_ns = MS + self._clock.spread_ns
                        self.events += self._metadata.read(batch, at_ns, err_ns)
            await asyncio.sleep(READ_PERIOD_S)

    def _look_at(self, broker: int, line: str) -> None:
        found = self._failures[broker].read(line)
        number = None if found is None else self._paths[broker].get(found.path)
        if found is None or number is None:
            return
        t_ns, err_ns = time.monotonic_ns(), int(READ_PERIOD_S * 1e9)
        if found.wall_ms is not None:
            t_ns = self._clock.monotonic(found.wall_ms * MS)
            err_ns = MS + self._clock.spread_ns
        place = Place(broker, number)
        self.events.append(
            Event(
                t_ns=t_ns,
                source="broker",
                kind="offline",
                text=f"{place} is offline at its broker: {found.cause}".removesuffix(": "),
                place=place,
                err_ns=err_ns,
                data={"cause": found.cause},
            )
        )

    async def _read_metrics(self, broker: int, command: Sequence[str]) -> None:
        """Read the metrics of a broker; the reader ends with the broker, and another follows."""
        gauges = GaugeLines()
        while not self._stopping.is_set():
            process = await asyncio.create_subprocess_exec(
                *processes.ending_with_us(command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            assert process.stdout is not None
            try:
                while not self._stopping.is_set():
                    try:
                        line = await asyncio.wait_for(process.stdout.readline(), self._period_s)
                    except TimeoutError:
                        continue
                    if not line:
                        break
                    self._look_at_gauges(broker, gauges.read(line.decode("utf-8", "replace")))
            finally:
                # `Process.kill` would ask first whether it has ended, and take its exit code away
                # from whoever waits for it.
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
                await process.wait()
            await asyncio.sleep(0 if self._stopping.is_set() else METRICS_AGAIN_S)

    def _look_at_gauges(self, broker: int, changes: Iterable[GaugeChange]) -> None:
        for change in changes:
            number = self._paths[broker].get(change.path)
            if number is None:
                continue
            place, kind = Place(broker, number), "offline" if change.is_offline else "online"
            self.events.append(
                Event(
                    t_ns=self._clock.monotonic(change.wall_ms * MS),
                    source="jmx",
                    kind=kind,
                    text=f"the metrics of broker {broker} have {place} {kind}",
                    place=place,
                    err_ns=kafka_metrics.PERIOD_MS * MS + self._clock.spread_ns,
                )
            )

    async def _tick(self) -> None:
        sampled = time.monotonic()
        while not self._stopping.is_set():
            before = time.monotonic_ns()
            await asyncio.sleep(TICK_S)
            late_ns = time.monotonic_ns() - before - int(TICK_S * 1e9)
            self.noise_ns = max(self.noise_ns, late_ns)
            if time.monotonic() - sampled > CLOCK_PERIOD_S:
                self._clock.sample(*both_clocks())
                sampled = time.monotonic()
