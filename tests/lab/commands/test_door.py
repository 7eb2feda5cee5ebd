"""A server of the API ends with its thread, and at every signal."""

from __future__ import annotations

import contextlib
import signal
import threading
from concurrent.futures import Future
from typing import Any, cast

import pytest

from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output
from lab.commands.door import Door
from lab.machine.interrupts import SIGNALS, Interrupts


def door(ended: Future[None]) -> Door:
    state = ClusterState(
        name="x", root="/nonexistent", cluster_id="", uid=0, gid=0, mounts=(), nodes=()
    )
    return Door("http://127.0.0.1:1/", "", state, ended, cast(Any, None))


def test_it_ends_when_its_server_does() -> None:
    ended: Future[None] = Future()
    ended.set_result(None)

    assert door(ended).stay(Output(is_json=True)) == 0


def test_it_ends_at_a_signal_that_has_not_woken_its_thread() -> None:
    interrupts = Interrupts()
    with contextlib.ExitStack() as stack:
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.getsignal(number))
        interrupts.install()
        # That thread takes the signal itself: the waiting one is not woken, as where it came in
        # the moment before the wait.
        threading.Timer(0.2, signal.raise_signal, (signal.SIGTERM,)).start()
        with pytest.raises(KeyboardInterrupt):
            door(Future()).stay(Output(is_json=True))
