"""Looks at a cluster all the time and publishes what changed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import aiofiles
import msgspec

from fault_injection import journal
from fault_injection.errors import FaultError
from fault_injection.journal import Fault
from jbodlab.cli import lab_state
from jbodlab.cli.lab_state import ClusterState, NodeState
from jbodlab.cli.on_kafka import COMMANDS
from lab.cluster import layout, questions
from lab.cluster.picture import place_of, places_of
from lab.cluster.questions import NO_ANSWER
from lab.cluster.spec import spec_of
from lab.errors import LabError
from lab.ui import model
from lab.ui.model import Rates, Seen
from lab.ui.news import News
from lab.ui.published import Published
from lab.watch.observer import Observer

PERIOD_S = 0.5
ASK_DEADLINE_S = 3.0

FOREIGN = (
    COMMANDS["ui"].text,
    "the metadata log, and eligible leader replicas: read for clusters of this machine only",
    "faults: `jbodlab up` did not start this cluster",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedCluster:
    """A cluster that is watched.

    Attributes:
        journal: Where its faults are written down; None for a cluster of somebody else.
    """

    state: ClusterState
    journal: Path | None
    are_ours: bool
    not_known: Sequence[str] = ()


def own(state: ClusterState, state_dir: Path) -> WatchedCluster:
    """Return a cluster that is written down on this machine."""
    is_kafka = spec_of(state).runs.is_kafka
    return WatchedCluster(
        state=state,
        journal=lab_state.journal_file(state_dir),
        are_ours=not is_kafka,
        not_known=FOREIGN[:1] if is_kafka else (),
    )


def foreign(bootstrap: str, client_file: str = "") -> WatchedCluster:
    """Return a cluster of somebody else, Apache Kafka's for example.

    Args:
        bootstrap: Where it is.
        client_file: How it is reached, as properties of a Java client; empty where it is open.

    Raises:
        FormatError, ConfigError: the file is of no use.
        LabError: it does not answer, or the address is none.
    """
    first = bootstrap.split(",")[0].strip()
    if not first.rpartition(":")[2].isdecimal() or ":" not in first:
        raise LabError(f"expected an address such as localhost:9092, got {first!r}")
    try:
        return asyncio.run(_foreign(first, client_file))
    except NO_ANSWER as error:
        raise LabError(f"no cluster answers at {first}: {error}") from error


async def _foreign(first: str, client_file: str) -> WatchedCluster:
    found = await questions.addresses(first, ASK_DEADLINE_S, client_file)
    nodes = [
        NodeState(
            role="broker",
            node_id=number,
            host=host,
            port=port,
            metadata_log_dir=str(layout.NOWHERE),
            client_file=client_file,
        )
        for number, (host, port) in sorted(found.items())
    ]
    state = layout.foreign(first, nodes)
    try:
        await questions.log_dir_states(nodes[0], ASK_DEADLINE_S)
    except NO_ANSWER:
        return WatchedCluster(state=state, journal=None, are_ours=False, not_known=FOREIGN)
    return WatchedCluster(state=state, journal=None, are_ours=True, not_known=FOREIGN[1:])


class Watching:
    """One look at the cluster for all browsers; all state lives on the server's event loop.

    Args:
        watched: The cluster that is watched.
        published: Gets all that is new.
        changed: Called when something is.
        may_break: Whether the page has buttons for faults.
        needs_token: Whether these work with the token only.
    """

    def __init__(
        self,
        watched: WatchedCluster,
        published: Published,
        changed: Callable[[], None],
        *,
        may_break: bool,
        needs_token: bool,
    ) -> None:
        state = watched.state
        has_log = bool(state.nodes) and any(node.role == "controller" for node in state.nodes)
        self.seen = Seen(
            name=state.name,
            bootstrap=state.bootstrap,
            brokers=(),
            may_break=may_break,
            needs_token=needs_token,
            is_closed=bool(spec_of(state).security),
            not_known=watched.not_known,
        )
        self._journal = watched.journal
        self._root = Path(state.root)
        self._published = published
        self._changed = changed
        self._observer = Observer(
            state.brokers,
            places_of(state.brokers),
            [Path(each.metadata_log_dir) for each in state.controllers] if has_log else [],
            None,
            period_s=PERIOD_S,
            are_ours=watched.are_ours,
        )
        self._rates = Rates()
        self._news = News(has_log=has_log)

    async def run(self) -> None:
        """Look until cancelled."""
        await asyncio.to_thread(self._observer.begin)
        try:
            while True:
                if await self._look():
                    self._changed()
                await asyncio.sleep(PERIOD_S)
        finally:
            self._observer.end_soon()

    def wait_ended(self) -> None:
        """Wait until nobody asks the cluster any more; blocks."""
        self._observer.stop()

    async def _look(self) -> bool:
        if not self._observer.is_alive():
            raise LabError("the cluster is not watched any more; the error above says why")
        faults = await self._faults()
        open_faults = [fault for fault in faults.values() if fault.is_open]
        picture = self._observer.picture
        seen = replace(
            self.seen,
            brokers=picture.brokers,
            listed=picture.listed,
            partitions=picture.partitions,
            faults=open_faults,
            leading_controller=str(self._observer.leading_controller or ""),
            open_transactions=self._observer.open_transactions,
            stuck=dict(self._observer.stuck),
        )
        # These go through all replicas, which may be many, and change nothing.
        sections, sizes = await asyncio.to_thread(lambda: (model.sections(seen), model.sizes(seen)))
        # From here on nothing waits, so that browsers read what was published or what was before.
        self.seen = seen
        self._rates.look(sizes, time.monotonic())
        named = {number: (fault, place_of(seen, fault.path)) for number, fault in faults.items()}
        now_ns = time.time_ns()
        items = [
            *self._news.of_cluster(self._observer.take(), time.monotonic_ns(), now_ns),
            *self._news.of_faults(named, now_ns),
        ]
        sections["rates"] = self._rates.to_json(PERIOD_S)
        return self._published.publish(sections, msgspec.to_builtins(items))

    async def _faults(self) -> Mapping[int, Fault]:
        if self._journal is None:
            return {}
        with contextlib.suppress(OSError, FaultError):
            async with aiofiles.open(self._journal, "rb") as file:
                found = journal.parse(await file.read(), self._journal)
            return {
                number: fault for number, fault in found.items() if self._root in fault.path.parents
            }
        return {}
