"""CPU time of each test file, servers included, kept in `durations.tsv`: a run says what grew.

    .venv/bin/python -m tests.durations      # exit code 1 where a test file has no line in it

CPU time, since wall time is that of all who share the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("durations.tsv")
COST_MOST = 10
"""So many files are named that cost most."""
GREW, GREW_S = 1.5, 10.0
"""A file is named where it takes so many times as long, and so many seconds more.

Which file starts the cluster that several share depends on the order of a run.
"""


class Durations:
    """A plugin of all processes of a run."""

    def __init__(self) -> None:
        self.spent_s: defaultdict[str, float] = defaultdict(float)
        self._own_s = _own_s()
        self._children_s = _children_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what was spent since the test before into the last report of a test."""
        if call.when == "teardown":
            before_s, self._own_s = self._own_s, _own_s()
            spent_s = self._own_s - before_s
            # A unit starts nothing, and there are thousands.
            if item.get_closest_marker("unit") is None:
                before_s, self._children_s = self._children_s, _children_s()
                spent_s += self._children_s - before_s
            item.user_properties.append(("cpu_s", spent_s))
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


def _own_s() -> float:
    found = os.times()
    return found.user + found.system


def _children_s() -> float:
    """CPU time of all processes that this one has started, those that still run included."""
    found = os.times()
    ticks = 0
    started = {os.getpid()}
    # A process has a greater number than its parent, but where numbers begin anew.
    for pid in sorted(int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
            if int(fields[1]) in started:
                started.add(pid)
                ticks += sum(map(int, fields[11:15]))
    return found.children_user + found.children_system + ticks / os.sysconf("SC_CLK_TCK")


def read(text: str) -> dict[str, float]:
    """Read seconds by file."""
    return {name: float(seconds) for name, seconds in map(str.split, text.splitlines())}


def rendered(spent_s: Mapping[str, float], root: Path) -> str:
    """Render the files that there are."""
    kept = {name: seconds for name, seconds in spent_s.items() if (root / name).exists()}
    return "".join(f"{name}\t{seconds:.1f}\n" for name, seconds in sorted(kept.items()))


def missing(known: Mapping[str, float], root: Path) -> list[str]:
    """Return the test files that have no line, but for those that only `make soak` runs."""
    files = (root / "tests").rglob("test_*.py")
    names = {str(file.relative_to(root)) for file in files if not _is_soak(file.read_text("utf-8"))}
    return sorted(names - known.keys())


def _is_soak(text: str) -> bool:
    marks = re.search(r"^pytestmark = (\[.*?\]|.*?$)", text, re.DOTALL | re.MULTILINE)
    return marks is not None and "pytest.mark.soak" in marks[0]


def said(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Return one line: the CPU time of all files that ran, which cost most, and which grew."""
    grew = [
        f"{name} {before[name]:.0f} -> {seconds:.0f} s"
        for name, seconds in sorted(now.items())
        if seconds > GREW * before.get(name, seconds) and seconds > before[name] + GREW_S
    ]
    dearest = sorted(now.items(), key=lambda one: -one[1])[:COST_MOST]
    most = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in dearest)
    total = f"CPU time of tests: {sum(now.values()):.0f} s"
    return f"{total}; grew: {', '.join(grew) or 'nothing'}; most: {most or 'none'}"


def main() -> int:
    """Name the test files without a line."""
    found = missing(read(FILE.read_text()), FILE.parent.parent)
    for name in found:
        print(f"{name} has no line in tests/{FILE.name}: keep that of a run of .ci/run")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
