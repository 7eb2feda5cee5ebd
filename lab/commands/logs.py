"""`jbodlab logs`: what the servers printed, each line with the name of its server."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from jbodlab.cli.lab_state import NodeState
from jbodlab.cli.output import Output
from jbodlab.cli.parser import UsageError
from lab import opened
from lab.cluster import Cluster
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

POLL_S = 0.1


def run(options: Namespace, output: Output, _: Interrupts) -> int:
    """Print them, until Ctrl-C with `--follow`; returns the exit code."""
    if options.lines < 0:
        raise UsageError(f"--lines: expected a number from 0, got {options.lines}")
    cluster = Cluster(opened.read(StateFiles.open(), options.cluster))
    tails = [_Tail(node.state) for node in opened.nodes(cluster, options.nodes)]
    for tail in tails:
        for line in tail.last(options.lines):
            _print(output, tail.name, line)
    while options.follow:
        grown = [(tail.name, line) for tail in tails for line in tail.more()]
        for name, line in grown:
            _print(output, name, line)
        if not grown:
            time.sleep(POLL_S)
    return 0


class _Tail:
    """A file that grows."""

    def __init__(self, node: NodeState) -> None:
        self.name = node.name
        self._path = Path(node.log_file)
        self._read = 0
        self._rest = b""

    def last(self, count: int) -> list[str]:
        lines = self.more()
        return lines[len(lines) - count :] if count < len(lines) else lines

    def more(self) -> list[str]:
        """Return the whole lines that came since."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        except FileNotFoundError:
            return []
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]


def _print(output: Output, name: str, line: str) -> None:
    if output.is_json:
        output.json_line({"server": name, "line": line})
    else:
        output.line(f"{name:<14} | {line}")
