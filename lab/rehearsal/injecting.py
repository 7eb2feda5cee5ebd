"""Makes the faults of a plan, heals them, counts what they broke, brings directories back."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol

from fault_injection.errors import FaultError
from fault_injection.kinds import KINDS, Scope
from jbodlab.picture.cluster_picture import ClusterPicture
from jbodlab.picture.places import CLUSTER, CONTROLLER, Place
from jbodlab.vocabulary.errors import JbodlabError
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster import Fault, NotInTimeError
from lab.errors import LabError
from lab.findings import Finding, Kind
from lab.plan import targets
from lab.plan.plan import Entry
from lab.rehearsal.facts import FaultFacts
from lab.rehearsal.target_cluster import TargetCluster
from lab.watch.observer import Observer

BROUGHT_BACK_S = (0.0, 1.0, 2.0)
"""Pauses before which directories are brought back at an early end."""
MARGIN_S = 5.0
"""A fault that ends by itself does so this much later than it is reverted here."""


class Say(Protocol):
    """Writes an event down and tells it."""

    def __call__(
        self,
        source: str,
        kind: str,
        text: str,
        *,
        ref: str = "",
        at_ns: int | None = None,
        place: Place | None = None,
    ) -> None:
        """Take one event, of now unless a time is given."""


@dataclass(slots=True)
class Active:
    """An entry that was made, or was tried to be made."""

    entry: Entry
    facts: FaultFacts
    handles: list[Fault] = field(default_factory=list)
    work: list[Future[None]] = field(default_factory=list)
    """Work of threads on it, that runs or is done."""
    bytes_before: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether a thread works on it; errors of threads are mistakes here, and come out."""
        return any(is_open(future) for future in self.work)

    @property
    def stands(self) -> bool:
        """Whether something of it is still to be reverted."""
        return bool(self.handles) and self.facts.healed_ns is None


def is_open(future: Future[None]) -> bool:
    """Return whether a thread works on it; an error of it comes out."""
    return not future.done() or bool(future.result())


def hits_directories(entry: Entry) -> bool:
    """Return whether a fault is made on log directories, else on a whole node."""
    scope = KINDS[entry.do].scope
    is_node = entry.where is not None and targets.is_node(entry.where)
    return scope is Scope.DIRECTORY or (scope is Scope.EITHER and not is_node)


class Injector:
    """Makes and heals a plan's faults; one thread at a time calls it.

    Args:
        target_cluster: The cluster.
        observer: Tells what lies where.
        chance: Draws for targets at random.
        say: Told of each step.
        find: Given what speaks against the run.
    """

    def __init__(
        self,
        target_cluster: TargetCluster,
        observer: Observer,
        chance: random.Random,
        say: Say,
        find: Callable[[Finding], None],
    ) -> None:
        self._target_cluster = target_cluster
        self._observer = observer
        self._chance = chance
        self._say = say
        self._find = find
        self.tried_ns: dict[Place, int] = {}
        """When a directory was last brought back, or that was tried."""

    def inject(self, faults: Sequence[Active]) -> None:
        """Make the faults of one instant; what becomes of them stands in their facts."""
        # Where the first moves a leader, the targets of the others are where they were before.
        picture = self._observer.picture
        for active in faults:
            self._inject(active, picture)

    def _inject(self, active: Active, picture: ClusterPicture) -> None:
        entry = active.entry
        assert entry.where is not None
        assert entry.spec is not None
        try:
            places = self._places(entry, picture)
            touched, led = self._touched(places, picture)
            active.facts = replace(active.facts, places=places, touched=touched, led=led)
            active.bytes_before = picture.bytes_of(touched)
            for place in places:
                active.handles += self._break(entry, place, picture)
        except (FaultError, LabError, NotInTimeError, ValueError, OSError) as error:
            text = _first_line(error)
            active.facts = replace(active.facts, problem=f"not injected: {text}")
            self._take_back(active)
            self._say("fault", "unproved", f"{entry.name}: {text}", ref=entry.name)
            return
        first = active.handles[0]
        active.facts = replace(
            active.facts,
            mechanism=first.mechanism,
            injected_ns=min(handle.injected_ns for handle in active.handles),
        )
        shown = ", ".join(map(str, places))
        self._say(
            "fault",
            "injected",
            f"{entry.name} injected: {entry.do} on {shown}, with replicas of {len(touched)} "
            f"partitions, {len(led)} of them leaders",
            ref=entry.name,
            at_ns=active.facts.injected_ns,
            place=places[0],
        )
        if entry.do == "restart":
            self._healed(active)

    def _places(self, entry: Entry, picture: ClusterPicture) -> tuple[Place, ...]:
        assert entry.where is not None
        directories = hits_directories(entry)
        if entry.where == targets.ActiveController():
            active = self._target_cluster.cluster.active_controller()
            if active.state.role == "controller":
                return (Place(-active.id, int(directories)),)
            raise ValueError(f"{active.name} is a controller and a broker")
        return targets.resolve(entry.where, picture, self._chance, directories=directories)

    def _take_back(self, active: Active) -> None:
        """Revert what was made of a fault in some places before it was refused in another one."""
        while active.handles:
            try:
                active.handles[-1].heal()
            except (FaultError, LabError) as error:
                name = active.entry.name
                self._find(Finding(kind=Kind.NOT_REVERTED, subject=name, why=str(error)))
                return
            active.handles.pop()

    def _break(self, entry: Entry, place: Place, picture: ClusterPicture) -> list[Fault]:
        words: dict[str, object] = {
            key: value for key, value in entry.given.items() if key != "for"
        }
        ends_by_itself = entry.do == "hang" or self._target_cluster.outlives_us
        if ends_by_itself and entry.length_s is not None:
            # Should this process not be there any more to revert it.
            words["for"] = entry.length_s + MARGIN_S
        if entry.other is not None:
            other = targets.resolve(entry.other, picture, self._chance, directories=True)[0]
            words["with"] = self._target_cluster.path(other)
        if place.broker == CONTROLLER and entry.do == "cut":
            # It never connects to anybody: those that connect to it are what can be broken.
            return [
                one.fails("cut", from_="controller") for one in self._target_cluster.cluster.brokers
            ]
        if place.broker == CLUSTER:
            return [self._target_cluster.cluster.fails(entry.do, **words)]
        cluster = self._target_cluster.cluster
        node = (
            cluster.controller if place.broker == CONTROLLER else cluster.nodes[abs(place.broker)]
        )
        if place.directory:
            return [node.log_dir(place.directory).fails(entry.do, **words)]
        return [node.fails(entry.do, **words)]

    def _touched(
        self, places: tuple[Place, ...], picture: ClusterPicture
    ) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
        """Return the partitions that are watched in some places, and those led from there."""
        found: set[TopicPartition] = set()
        led: set[TopicPartition] = set()
        for place in places:
            for partition, view in picture.partitions.items():
                # Controllers, and what users lose, are about all partitions.
                inside = place.broker <= CONTROLLER or (
                    partition in picture.contents.get(place, {})
                    if place.directory
                    else place.broker in view.replicas
                )
                if inside:
                    found.add(partition)
                    if view.leader == place.broker:
                        led.add(partition)
        return tuple(sorted(found)), tuple(sorted(led))

    def heal(self, active: Active) -> None:
        """Undo a fault; its facts say when."""
        self.count(active)
        try:
            for handle in active.handles[::-1]:
                handle.heal()
        except (FaultError, LabError) as error:
            name = active.entry.name
            self._find(Finding(kind=Kind.NOT_REVERTED, subject=name, why=str(error)))
            return
        self.count(active)
        if clients := active.facts.clients:
            name = active.entry.name
            self._say("fault", "clients", f"clients meanwhile: {clients}", ref=name)
        self._healed(active)

    def _healed(self, active: Active) -> None:
        growth = self._observer.picture.bytes_of(active.facts.touched) - active.bytes_before
        active.facts = replace(active.facts, healed_ns=time.monotonic_ns(), growth=max(0, growth))
        name = active.entry.name
        self._say("fault", "healed", f"{name} reverted", ref=name)

    def count(self, active: Active) -> None:
        """Take notice of what the fault broke; the mechanism may forget it when it is healed."""
        calls_broken, first, counts = 0, None, False
        for handle in active.handles:
            found = handle.broken
            was = active.facts.clients
            active.facts = replace(active.facts, broken=str(found), clients=found.clients)
            if found.clients is not None and found.clients.refused and not (was and was.refused):
                text = f"{active.entry.name}: the first client is refused"
                self._say("fault", "refused", text, ref=active.entry.name)
            if found.what in ("calls", "connections"):
                counts = True
                calls_broken += found.count
                if found.first_ns is not None:
                    first = min(first or found.first_ns, found.first_ns)
        before = active.facts
        if counts and calls_broken >= (before.calls_broken or 0):
            if first is not None and before.first_broken_ns is None:
                self._say(
                    "fault",
                    "first-broken",
                    f"{before.name} broke its first call",
                    ref=before.name,
                    at_ns=first,
                )
            active.facts = replace(
                before, counts=True, calls_broken=calls_broken, first_broken_ns=first
            )

    def revive(self, places: Iterable[Place]) -> None:
        """Bring directories back that were healed and that their broker still calls offline."""
        for place in places:
            try:
                text = self._target_cluster.revive(place)
            except (JbodlabError, NotInTimeError) as error:
                text = f"{place} could not be brought back: {_first_line(error)}"
            if text:
                self._say("action", "revive", text, place=place)
            # A directory that was brought back is seen a moment later.
            self.tried_ns[place] = time.monotonic_ns()

    def bring_back(self, hit: Iterable[Place]) -> None:
        """Leave no directory offline that was broken, where there was no time for it before.

        A broker may notice what broke a moment after that was reverted.
        """
        places = sorted(place for place in hit if place.directory)
        for pause_s in BROUGHT_BACK_S if places else ():
            time.sleep(pause_s)
            self.revive(places)


def _first_line(error: BaseException) -> str:
    """Its text; the lines below are those that servers printed, which are kept elsewhere."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
