"""Waits until a fault is detected: by the broker, by a controller, or as clients see it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fault_injection.kinds import CLIENTS, CONTROLLER, FaultSpec
from fault_injection.mechanism import Target
from jbodlab.cli.on_kafka import FAULTS
from jbodlab.cli.output import counted
from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import ClusterPicture, PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.durations import duration_text
from lab.cluster import NotInTimeError, wait_for
from lab.cluster.cluster import Cluster
from lab.cluster.picture import places_of
from lab.watch.noticed import ANSWERS, METADATA, SILENCE, Notice, notices
from lab.watch.observer import Observer
from lab.watch.server_log import LOG, last_words

FIRST_LOOK_S = 3.0
DEADLINE_S = 30.0
LAST_LOOK_S = 1.0
POLL_S = 0.02
RESTART, ISR, QUORUM = "restart of the broker", "Metadata", "DescribeQuorum"
"""Sources besides those of `noticed`."""
Found = tuple[str, str, int]
"""Text that shows a fault, the source that tells it, and since when."""
STARTS_AGAIN = ("restart", "swapped", "emptied", "twin")
"""Kinds that end with a start of the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """How a fault was detected.

    Attributes:
        what: Text about the directory or the broker.
        by: The source that tells when: one of `noticed`.
        after_ms: How long after the fault took effect.
        leaders_moved: How many partitions have another leader since.
    """

    what: str
    by: str
    after_ms: float
    leaders_moved: int

    def __str__(self) -> str:
        return (
            f"{self.what} after {duration_text(self.after_ms / 1000)} ({self.by}), leaders of "
            f"{counted(self.leaders_moved, 'partition')} moved"
        )


class DetectingOfController:
    """Watches the quorum from before a fault on one of its controllers.

    Others notice it by another controller that becomes active.
    """

    def __init__(self, cluster: Cluster, target: Target) -> None:
        assert target.broker is not None
        self._cluster = cluster
        self._name = target.broker.name
        self._before = cluster.quorum()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def not_detected(self, wanted: FaultSpec) -> str:
        """Return what to say when no other controller became active."""
        before = self._before
        if before is None:
            return f"no controller was active before {self._name} was hit"
        if self._is_standby:
            return f"{self._name} was a standby: controller-{before.leader_id} is the active one"
        within = duration_text(DEADLINE_S)
        return f"no other controller than {self._name} became active within {within}"

    @property
    def _is_standby(self) -> bool:
        return self._before is not None and self._name != f"controller-{self._before.leader_id}"

    def wait(self, wanted: FaultSpec, since_ns: int) -> Detected | None:
        """Wait until another one is active; None if none is in time, or the target was not."""
        before = self._before
        if before is None or self._is_standby:
            return None
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            now = self._cluster.quorum()
            if now is not None and now.leader_epoch > before.leader_epoch:
                return Detected(
                    what=f"controller-{now.leader_id} is active in epoch {now.leader_epoch}",
                    by=QUORUM,
                    after_ms=max(0.0, (time.monotonic_ns() - since_ns) / 1e6),
                    leaders_moved=0,
                )
            time.sleep(POLL_S)
        return None


def detecting(cluster: Cluster, target: Target) -> Detecting | DetectingOfController:
    """Return what watches a cluster from before a fault on one of its nodes."""
    assert target.broker is not None
    watch = Detecting if target.broker.is_broker else DetectingOfController
    return watch(cluster, target)


class Detecting:
    """Watches a cluster from before a fault on one of its brokers, to the end of a `with` block."""

    def __init__(self, cluster: Cluster, target: Target) -> None:
        assert target.broker is not None
        folder = target.broker.folder
        self._broker = next(one for one in cluster.brokers if one.folder == folder)
        self._directory = target.directory
        brokers = cluster.state.brokers
        self._observer = Observer(
            brokers,
            places_of(brokers),
            [each.metadata_dir for each in cluster.controllers],
            None,
            are_ours=not cluster.engine.is_kafka,
        )
        self._answers_tell = cluster.engine.revives
        self._start_deadline_s = cluster.engine.served_deadline_s
        self._observer.begin()
        self._look()
        self._before = self._observer.picture
        self._state_before = self._state_of_directory()
        self._name = target.broker.name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A caller that ends while a file is read gets the error of a thread that cannot go on.
        self._observer.stop()

    def not_detected(self, wanted: FaultSpec) -> str:
        """Return what to say when nobody detected a fault."""
        text = f"{self._name} has not detected it within {duration_text(self._deadline_s(wanted))}"
        why = "" if self._answers_tell else FAULTS[wanted.kind].text
        return f"{text}: {why}" if why else text

    def _deadline_s(self, wanted: FaultSpec) -> float:
        return self._start_deadline_s if wanted.kind in STARTS_AGAIN else DEADLINE_S

    def wait(self, wanted: FaultSpec, since_ns: int) -> Detected | None:
        """Wait until it is detected; None if nobody did in time."""
        end = time.monotonic() + self._deadline_s(wanted)
        while time.monotonic() < end:
            is_last = time.monotonic() > end - LAST_LOOK_S
            if found := self._found(wanted, since_ns, is_last=is_last):
                what, by, at_ns = found
                return Detected(
                    what=what,
                    by=by,
                    after_ms=max(0.0, (at_ns - since_ns) / 1e6),
                    leaders_moved=self._moved(end),
                )
            time.sleep(POLL_S)
        return None

    def _look(self) -> None:
        """Wait for the first answers, of those that give one."""
        running = self._broker.is_running

        def is_seen() -> bool:
            seen = self._observer.picture
            return seen.listed is not None and (not running or self._told(seen) is not None)

        try:
            wait_for("the first answers", is_seen, FIRST_LOOK_S)
        except NotInTimeError:
            return

    def _found(self, wanted: FaultSpec, since_ns: int, *, is_last: bool) -> Found | None:
        """Return the text that shows the fault, and since when.

        Args:
            wanted: The fault.
            since_ns: When it took effect.
            is_last: Whether the answers of a broker have to do that has written nothing so far.
        """
        if wanted.kind == "cut":
            return self._found_of_cut(wanted, since_ns)
        if wanted.kind in STARTS_AGAIN:
            said = self._said_of_start()
            return (said, RESTART, time.monotonic_ns()) if said else None
        if self._directory is None or wanted.kind == "power-loss":
            return self._fenced(since_ns)
        return self._found_of_directory(since_ns, is_last=is_last)

    def _found_of_cut(self, wanted: FaultSpec, since_ns: int) -> Found | None:
        """Return the sighting of a cut: first the controller's detection, then those of others."""
        parties = wanted.cut_from or (CONTROLLER,)
        if CONTROLLER in parties:
            return self._fenced(since_ns)
        if CLIENTS in parties:
            silent = self._notice(SILENCE, Place(self._broker.id), since_ns)
            return ("no client reaches the broker", SILENCE, silent.t_ns) if silent else None
        now, before = self._observer.picture.partitions, self._before.partitions
        smaller = sum(
            len(found.isr) < len(before[key].isr)
            for key, found in now.items()
            if key in before and self._broker.id in found.replicas
        )
        text = f"the ISR of {counted(smaller, 'partition')} shrank"
        return (text, ISR, time.monotonic_ns()) if smaller else None

    def _fenced(self, since_ns: int) -> Found | None:
        fenced = self._notice(METADATA, Place(self._broker.id), since_ns)
        return ("the controller has fenced the broker", METADATA, fenced.t_ns) if fenced else None

    def _found_of_directory(self, since_ns: int, *, is_last: bool) -> Found | None:
        state = self._state_of_directory()
        if not state or (state == self._state_before and not is_last):
            # It was SLOW or FULL before: no news, also where the log tells more than the answers.
            return None
        assert self._directory is not None
        place = Place(self._broker.id, self._broker.paths.index(self._directory) + 1)
        logged = self._notice(LOG, place, since_ns)
        if logged is None and not self._answers_tell:
            # Kafka's brokers look at the file system for each answer, whatever they know.
            seen = self._notice(ANSWERS, place, since_ns)
            text = f"answers say that the directory is {state}, its broker has not noticed it,"
            return (text, ANSWERS, seen.t_ns) if is_last and seen else None
        if logged is None:
            return f"the directory is {state}", ANSWERS, time.monotonic_ns()
        return f"the directory is {state}", LOG, logged.t_ns

    def _said_of_start(self) -> str:
        if not self._broker.is_running:
            said = last_words(self._broker.log_lines()) or "nothing was printed"
            return f"does not start ({said}),"
        if not self._is_registered():
            return ""
        state = self._state_of_directory()
        return f"runs again{f', the directory is {state}' if state else ''}"

    def _state_of_directory(self) -> str:
        """Return the broker's last word on the directory; empty while it is online and well."""
        for view in self._told(self._observer.picture) or ():
            if Path(view.path) == self._directory:
                cause = [f"({view.cause})"] if view.cause else []
                if view.error:
                    return " ".join(["OFFLINE", *view.conditions, *cause])
                return " ".join(["online but", *view.conditions, *cause]) if view.conditions else ""
        return ""

    def _told(self, seen: ClusterPicture) -> Sequence[DescribedLogDir] | None:
        """Return what the broker says of its directories."""
        return next(one.log_dirs for one in seen.brokers if one.broker_id == self._broker.id)

    def _is_registered(self) -> bool:
        """Return whether the controller has it as a broker that may lead."""
        place = Place(self._broker.id)
        news = [
            event.kind
            for event in self._observer.events
            if event.source == "metadata"
            and event.kind in ("fenced", "unfenced")
            and event.place == place
        ]
        return bool(news) and news[-1] == "unfenced"

    def _notice(self, by: str, place: Place, since_ns: int) -> Notice | None:
        found = notices((place,), since_ns, self._observer.events)
        return next((notice for notice in found if notice.by == by), None)

    def _moved(self, end: float) -> int:
        """Count leaders that changed, once partitions that can find another one have done so."""
        since_ns = time.monotonic_ns()
        while True:
            now, samples = self._observer.picture.partitions, self._observer.samples
            before = self._before.partitions
            is_new = bool(samples) and samples[-1].t_ns > since_ns
            is_settled = is_new and not any(
                key in now and was.leader >= 0 and self._awaits_leader(now[key])
                for key, was in before.items()
            )
            if is_settled or time.monotonic() > end:
                return sum(
                    key in now and now[key].leader != found.leader for key, found in before.items()
                )
            time.sleep(POLL_S)

    def _awaits_leader(self, found: PartitionPicture) -> bool:
        return found.leader < 0 and any(member != self._broker.id for member in found.isr)
