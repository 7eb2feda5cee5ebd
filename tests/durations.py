"""CPU time of each test file, servers included, kept in `durations.tsv`: a run says what grew.

CPU time, since wall time is that of all who share the machine. What a process has started counts
when that has ended: of a cluster that several files share, for the last of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.tsv")
GREW, GREW_S = 1.5, 5.0
"""A file is named where it takes so many times as long, and so many seconds more."""


class Durations:
    """A plugin of all processes of a run."""

    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self._at_s = _cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what was spent since the test before into the last report of a test."""
        if call.when == "teardown":
            before_s, self._at_s = self._at_s, _cpu_s()
            item.user_properties.append(("cpu_s", self._at_s - before_s))
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what a worker reports."""
        if report.when == "teardown":
            spent: Any = dict(report.user_properties).get("cpu_s", 0.0)
            self.spent_s[report.nodeid.partition("::")[0]] += spent

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what grew, and keep what there is now."""
        before = read(FILE.read_text()) if FILE.exists() else {}
        terminalreporter.write_line(said(before, self.spent_s))
        FILE.write_text(rendered({**before, **self.spent_s}, FILE.parent.parent))


def _cpu_s() -> float:
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def read(text: str) -> dict[str, float]:
    """Read seconds by file."""
    return {name: float(seconds) for name, seconds in map(str.split, text.splitlines())}


def rendered(spent_s: Mapping[str, float], root: Path) -> str:
    """Render the files that there are."""
    kept = {name: seconds for name, seconds in spent_s.items() if (root / name).exists()}
    return "".join(f"{name}\t{seconds:.1f}\n" for name, seconds in sorted(kept.items()))


def said(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Return one line: the CPU time of all files that ran, and which take longer than before."""
    grew = [
        f"{name} {before[name]:.0f} -> {seconds:.0f} s"
        for name, seconds in sorted(now.items())
        if seconds > GREW * before.get(name, seconds) and seconds > before[name] + GREW_S
    ]
    total = f"CPU time of tests: {sum(now.values()):.0f} s"
    return f"{total}; grew: {', '.join(grew) or 'nothing'}"
