"""`python -m bench.first_record`: from the call of `jbodlab serve` to the first produced record.

With `--image` also from `docker run` of an image to the answer that its cluster is well.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
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


def healthy_s(image: str) -> float:
    """Run an image; returns the seconds until its API tells that the cluster is well."""
    begun = time.monotonic()
    container = _docker("run", "--detach", "--rm", "--publish=127.0.0.1::8080", image)
    try:
        address = _docker("port", container, "8080").splitlines()[0]
        while time.monotonic() - begun < DEADLINE_S:
            try:
                with urllib.request.urlopen(f"http://{address}/v1/health", timeout=5) as answer:
                    if json.load(answer)["status"] == "ok":
                        return time.monotonic() - begun
            except OSError:
                time.sleep(0.01)
        raise TimeoutError(f"{image} is not well after {DEADLINE_S:g} s")
    finally:
        _docker("rm", "--force", container)


def _docker(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> int:
    """Measure it a few times for each engine, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.first_record", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", nargs="*", default=[], help="such as kafka:4.3.1, beside ours")
    parser.add_argument("--image", default="", help="an image that was built, such as jbodlab")
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
    if options.image:
        waits = [healthy_s(options.image) for _ in range(options.runs)]
        print(f"{options.image} in a container: well after {median(waits):.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
