"""Asks the user's own application over and over whether it is well, by a schedule."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request

from lab.rehearsal.facts import Probe


class Prober(threading.Thread):
    """One question after the other; one that is due while another waits is measured from then."""

    def __init__(self, address: str, *, every_s: float, timeout_s: float) -> None:
        super().__init__(name="prober", daemon=True)
        self.probes: list[Probe] = []
        """It only ever grows."""
        self._address = address
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._stopping = threading.Event()
        # Whatever proxy this machine goes out by, an application of its own is asked directly.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

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

    def _ask(self) -> bool:
        try:
            with self._opener.open(self._address, timeout=self._timeout_s) as answer:
                return bool(200 <= answer.status < 400)
        except (OSError, urllib.error.URLError, ValueError):
            return False
