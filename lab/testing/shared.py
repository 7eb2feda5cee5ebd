"""Clusters that the tests of one process share: equal needs share one, and few are kept."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable

from jbodlab.vocabulary.errors import JbodlabError
from lab.cluster import ClusterSpec, NotInTimeError
from lab.testing.clusters import Cluster

KEPT_MAX = 2
SETTLE_DEADLINE_S = 10.0


class SharedClusters:
    """The clusters by what they can do, the one that was unused for longest first.

    Args:
        make: Starts a cluster for a need.
    """

    def __init__(
        self, make: Callable[[ClusterSpec], Cluster] = lambda need: Cluster(need=need)
    ) -> None:
        self._make = make
        self._clusters: OrderedDict[ClusterSpec, Cluster] = OrderedDict()
        self._own: list[Cluster] = []

    def get(self, need: ClusterSpec) -> Cluster:
        """Return the cluster for a need, started if there is none."""
        if need not in self._clusters:
            while len(self._clusters) >= KEPT_MAX:
                _, oldest = self._clusters.popitem(last=False)
                oldest.close()
            self._clusters[need] = self._make(need)
        self._clusters.move_to_end(need)
        return self._clusters[need]

    def give_back(self, need: ClusterSpec) -> None:
        """Heal a cluster for the next test.

        One that does not settle, or whose settings, users or rights were changed, is thrown away.
        """
        cluster = self._clusters.get(need)
        if cluster is None:
            return
        try:
            cluster.heal(SETTLE_DEADLINE_S)
            cluster.forget_topics()
            is_as_before = not cluster.has_changed
        except (JbodlabError, NotInTimeError, OSError):
            is_as_before = False
        if not is_as_before:
            del self._clusters[need]
            cluster.close()

    def own(self, need: ClusterSpec) -> Cluster:
        """Return a new cluster that nobody shares; `close` ends it as well."""
        cluster = self._make(need)
        self._own.append(cluster)
        return cluster

    def close(self) -> None:
        """End all of them."""
        with contextlib.ExitStack() as stack:
            for cluster in (*self._clusters.values(), *self._own):
                stack.callback(cluster.close)
        self._clusters.clear()
        self._own.clear()
