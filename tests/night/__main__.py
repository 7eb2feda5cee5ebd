"""All that takes long, one round after the other, in a budget of hours.

    python -m tests.night --hours 8

Ctrl-C, or the end of the hours, ends it; the same command on the same commit goes on. Results are
kept in `tests/night/results.json`, and `docs/endurance.md` is made from them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from tests.night import rounds
from tests.night.rounds import FAILED, FINE, SKIPPED, Night, Part, Round

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "night"
RESULTS, PAGE = Path(__file__).with_name("results.json"), ROOT / "docs" / "endurance.md"
ENDED_S = 60.0
"""In which a round that is to end takes down what it has started."""
SEEDS_A_DAY = 100_000
NO_TESTS = 5
"""pytest's exit code where it had nothing to run."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.night", description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", nargs="*", help="these only")
    options = parser.parse_args()
    all_parts = rounds.read_parts(rounds.PARTS.read_text())
    parts = [each for each in all_parts if options.parts is None or each.name in options.parts]
    nights = msgspec.json.decode(RESULTS.read_bytes(), type=list[Night]) if RESULTS.exists() else []
    night = _tonight(nights)
    end = time.monotonic() + options.hours * 3600
    # A shell starts what runs in its background without Ctrl-C, and so would what is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    print(f"commit {night.commit}, seeds from {night.seed}, {night.machine}", flush=True)
    try:
        while (chosen := rounds.choose(parts, night)) and time.monotonic() < end:
            part, item = chosen
            done = _run(part, item, night, options.jobs, end)
            if done is None:
                break
            night.rounds.append(done)
            _keep(nights, all_parts)
            print(rounds.line_of(part, night)[:200], flush=True)
    except KeyboardInterrupt:
        print("ended; the same command goes on")
    for part in parts:
        print(rounds.line_of(part, night)[:200])
    return int(any(each.outcome == FAILED for each in night.rounds))


def _tonight(nights: list[Night]) -> Night:
    """Return the night of this commit and machine, a new one if there is none yet."""
    commit, machine = _commit(), _machine()
    for night in nights:
        if (night.commit, night.machine) == (commit, machine):
            return night
    seed = int(time.time() // 86_400) * SEEDS_A_DAY
    date = time.strftime("%Y-%m-%d", time.gmtime())
    nights.append(Night(commit=commit, machine=machine, date=date, seed=seed))
    return nights[-1]


def _run(part: Part, item: str, night: Night, jobs: int, end: float) -> Round | None:
    """Run one round; returns None if the night ended before it did, so that it counts for nothing.

    Of a round that failed the folder stays: log, what its nodes printed, the command.
    """
    failure = KEPT / night.commit / f"{part.name}-{item}".replace(" ", "-").replace(":", "")
    shutil.rmtree(failure, ignore_errors=True)
    failure.mkdir(parents=True)
    command = rounds.command_of(part, item, night, jobs, KEPT / night.commit, failure)
    (failure / "repeat").write_text(f"{command}\n")
    words = shlex.split(command)
    begin = next(n for n, word in enumerate(words) if "=" not in word)
    own = dict(word.split("=", 1) for word in words[:begin])
    environment = {**os.environ, "JBODLAB_TEST_OUTPUT": str(failure), **own}
    program = [sys.executable, *words[begin + 1 :]]
    began = time.monotonic()
    until = min(end, began + part.minutes * 60)
    with (failure / "log").open("wb") as log:
        child = subprocess.Popen(
            program, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = child.wait(max(0.0, until - began))
        except subprocess.TimeoutExpired:
            _end(child)
            if until == end:
                return None
            code = None
        except KeyboardInterrupt:
            _end(child)
            raise
    lines = (failure / "log").read_text(errors="replace").strip().splitlines()
    said = lines[-1][:160] if lines else ""
    outcome = _outcome(code, said)
    if outcome != FAILED:
        shutil.rmtree(failure)
    said = said if code is not None else f"it was ended after {part.minutes:.0f} minutes"
    spent = round(time.monotonic() - began, 1)
    return Round(part=part.name, item=item, seconds=spent, outcome=outcome, said=said)


def _outcome(code: int | None, said: str) -> str:
    if code == NO_TESTS or (code == 0 and re.match(r"=*\s*\d+ skipped", said)):
        return SKIPPED
    return FINE if code == 0 else FAILED


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ask a round, and all that it has started, to end; after a while end them."""
    for number, patience_s in ((signal.SIGINT, ENDED_S), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience_s)
            return


def _keep(nights: list[Night], parts: list[Part]) -> None:
    text = msgspec.json.format(msgspec.json.encode(nights), indent=1)
    RESULTS.with_suffix(".tmp").write_bytes(text + b"\n")
    RESULTS.with_suffix(".tmp").replace(RESULTS)
    PAGE.write_text(rounds.page(nights, parts))


def _commit() -> str:
    """Return the commit, and whether files were changed since; results do not count."""
    results = [f":!{each.relative_to(ROOT)}" for each in (RESULTS, PAGE)]
    said = [
        subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in (
            ("rev-parse", "--short=10", "HEAD"),
            ("status", "--porcelain", "--untracked-files=no", "--", ".", *results),
        )
    ]
    return f"{said[0].strip()}{'-changed' if said[1].strip() else ''}"


def _machine() -> str:
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    name = f"{os.cpu_count()} x {cpu[1]}" if cpu else f"{os.cpu_count()} cores"
    return f"{name}, {gigabytes:.0f} GB, {platform.system()} {platform.release()}"


if __name__ == "__main__":
    sys.exit(main())
