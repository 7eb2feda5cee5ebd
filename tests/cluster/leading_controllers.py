"""Asks the controllers of a quorum in turn who leads it, and says what must not be.

    python -m tests.cluster.leading_controllers 100=127.0.0.1:20001 101=127.0.0.1:20002

A node that claims an epoch, answers what only a confirmed leader does, and claims the same epoch
again has led in it meanwhile. As one question begins after the other has ended, epochs only rise,
and each has one leader. A line for each epoch and each mistake is printed; its standard input ends
it. It is a process of its own, as faults are proved by children, which gRPC does not bear.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from jbodlab.controller_api import messages
from jbodlab.controller_api.grpc_transport import ControllerStub
from jbodlab.vocabulary.error_code import ErrorCode
from lab.cluster.node import Node
from lab.machine import programs

ASK_S, PAUSE_S, END_S = 2.0, 0.02, 30.0
ROOT = Path(__file__).parents[2]
WRONG = "wrong"


class Leaders:
    """The leader of each epoch that was seen."""

    def __init__(self) -> None:
        self._leaders: dict[int, str] = {}

    def seen(self, node: str, epoch: int) -> str:
        """Take that a node leads in an epoch; returns what is to be said about it, if anything."""
        latest = max(self._leaders, default=-1)
        if epoch < latest or self._leaders.get(epoch, node) != node:
            return (
                f"{WRONG}: {node} leads in epoch {epoch} after {self._leaders[latest]} in {latest}"
            )
        is_new = epoch not in self._leaders
        self._leaders[epoch] = node
        return f"{node} leads in epoch {epoch}" if is_new else ""


@contextmanager
def watched(controllers: Sequence[Node], output: Path) -> Iterator[None]:
    """Watch controllers until the end of the block; lines go to a file."""
    words = [f"{each.id}={each.state.host}:{each.state.grpc_port}" for each in controllers]
    with output.open("wb") as file:
        command = [programs.python(), "-m", "tests.cluster.leading_controllers", *words]
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=file)
        try:
            yield
        finally:
            child.communicate(timeout=END_S)
    assert child.returncode == 0


def main() -> int:
    addresses = dict(word.split("=") for word in sys.argv[1:])
    reading = threading.Thread(target=sys.stdin.read, daemon=True)
    reading.start()
    leaders = Leaders()
    while reading.is_alive():
        reading.join(PAUSE_S)
        for node, address in addresses.items():
            with suppress(grpc.RpcError), grpc.insecure_channel(address) as channel:
                epoch = _led(ControllerStub(channel))
                if epoch is not None and (line := leaders.seen(node, epoch)):
                    print(line, flush=True)
    return 0


def _led(stub: Any) -> int | None:
    """Return the epoch in which a node leads while it is asked; None if it does not."""
    epoch = _claimed(stub)
    if epoch is None:
        return None
    request = messages.ListPartitionReassignmentsRequest()
    stub.ListPartitionReassignments(request, timeout=ASK_S)
    return epoch if _claimed(stub) == epoch else None


def _claimed(stub: Any) -> int | None:
    answer = stub.DescribeQuorum(messages.DescribeQuorumRequest(), timeout=ASK_S)
    return int(answer.leader_epoch) if answer.error_code == ErrorCode.NONE else None


if __name__ == "__main__":
    sys.exit(main())
