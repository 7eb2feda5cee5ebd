"""The requests under way: at most one for each node, and at most one Fetch at all.

A node that failed to answer is asked again after a pause. An answer belongs to its request by the
id; when a node enters another state, all requests are forgotten, and late answers are dropped.

Source: `org.apache.kafka.raft.RequestManager`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from jbodlab.raft.instructions import BootstrapServer, Destination, SendRequest
from jbodlab.raft.messages import FetchRequest, FetchSnapshotRequest, Request
from jbodlab.raft.voters import Endpoints


class SentRequest(msgspec.Struct, frozen=True):
    """A request that has no answer yet."""

    destination: Destination
    request: Request
    deadline_ms: int


class Outbox:
    """The requests of one node.

    Args:
        request_timeout_ms: After which an answer is not expected any more.
        retry_backoff_ms: The pause after a failure.
        bootstrap_servers: Their number.
    """

    def __init__(
        self, *, request_timeout_ms: int, retry_backoff_ms: int, bootstrap_servers: int
    ) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._bootstrap = tuple(BootstrapServer(index) for index in range(bootstrap_servers))
        self._sent: dict[int, SentRequest] = {}
        self._pauses: dict[Destination, int] = {}
        """Until when a node is not asked."""
        self._requests = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """When a request times out or a pause ends, whichever is first."""
        if not (self._sent or self._pauses):
            return None
        ends = [*(sent.deadline_ms for sent in self._sent.values()), *self._pauses.values()]
        return min(ends, default=None)

    @property
    def is_fetching(self) -> bool:
        """Whether a Fetch or a FetchSnapshot is under way."""
        return any(
            isinstance(sent.request, FetchRequest | FetchSnapshotRequest)
            for sent in self._sent.values()
        )

    def is_ready(self, destination: Destination) -> bool:
        """Return whether a node may be asked now."""
        return destination not in self._pauses and all(
            sent.destination != destination for sent in self._sent.values()
        )

    def is_pausing(self, destination: Destination) -> bool:
        """Return whether a node has failed to answer a moment ago."""
        return destination in self._pauses

    def ready_server(self, chance: float) -> BootstrapServer | None:
        """Return one of the bootstrap servers that may be asked; None if there is none."""
        ready: Sequence[BootstrapServer] = [each for each in self._bootstrap if self.is_ready(each)]
        return ready[int(chance * len(ready))] if ready else None

    def send(
        self, destination: Destination, endpoints: Endpoints, request: Request, now_ms: int
    ) -> SendRequest:
        """Return the instruction that asks a node."""
        assert self.is_ready(destination)
        self._requests += 1
        self._sent[self._requests] = SentRequest(
            destination, request, now_ms + self._request_timeout_ms
        )
        return SendRequest(self._requests, destination, endpoints, request)

    def take(self, request_id: int) -> SentRequest | None:
        """Return the request that was answered; None if no answer is expected."""
        return self._sent.pop(request_id, None)

    def pause(self, destination: Destination, now_ms: int, at_least_ms: int = 0) -> None:
        """Ask a node only after a pause again."""
        self._pauses[destination] = now_ms + max(self._retry_backoff_ms, at_least_ms)

    def forget_all(self) -> None:
        """Expect no answer any more, and let each node be asked at once."""
        self._sent.clear()
        self._pauses.clear()

    def expire(self, now_ms: int) -> None:
        """End the pauses that are over, and give up requests without an answer."""
        self._pauses = {node: end for node, end in self._pauses.items() if end > now_ms}
        for request_id, sent in list(self._sent.items()):
            if sent.deadline_ms <= now_ms:
                del self._sent[request_id]
                self.pause(sent.destination, now_ms)
