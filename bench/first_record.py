"""`python -m bench.first_record`: from the call of `jbodlab serve` to the first produced record."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer

from bench.measure import median
from lab.machine import programs
from lab.machine.folders import make_folder, remove_folder

DEADLINE_S = 120.0


class First(NamedTuple):
    """Seconds from the call to the first line, and to the acknowledgement of a record."""

    line_s: float
    record_s: float


def first_record(folder: Path, engine: str) -> First:
    """Serve a cluster, and produce to a topic that the first record creates."""
    words = ["serve", "--listen", "127.0.0.1:0", "--output", "json"]
    words += ["--engine", engine] if engine else []
    begun = time.monotonic()
    served = subprocess.Popen(
        programs.tool(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "JBODLAB_STATE_DIR": str(folder)},
    )
    try:
        assert served.stdout is not None
        bootstrap = json.loads(served.stdout.readline())["bootstrap"]
        line_s = time.monotonic() - begun
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        producer.produce("first", b"record")
        assert producer.flush(DEADLINE_S) == 0
        return First(line_s, time.monotonic() - begun)
    finally:
        served.send_signal(signal.SIGINT)
        served.wait(DEADLINE_S)


def main() -> int:
    """Measure it a few times for each engine, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_record", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=[], help="such as kafka:4.3.1, beside ours")
    options = parser.parse_args()
    found: dict[str, list[First]] = {}
    for _ in range(options.runs):
        for engine in ("", *options.engines):
            folder = make_folder()
            try:
                found.setdefault(engine or "jbodlab", []).append(first_record(folder, engine))
            finally:
                remove_folder(folder)
    for name, runs in found.items():
        lines, records = (median(list(one)) for one in zip(*runs, strict=True))
        print(f"{name}: first line after {lines:.2f} s, first record after {records:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
