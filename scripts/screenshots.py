"""Take the pictures of docs/images: the live page, a rehearsal and an incident.

    .venv/bin/python scripts/screenshots.py

Starts a cluster of its own and breaks a disk of it. Needs Chromium or Chrome on the path, and Java
for the incident. `docs/images/NAME.png` is written anew; all else is in a folder that goes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.headless_browser import Browser, find_browser  # noqa: E402 - of the clone

IMAGES = ROOT / "docs" / "images"
PROGRAM = [sys.executable, "-m", "jbodlab"]
CLUSTER = "screenshots"
PLAN = "kip112-disk-dies-while-serving"
WIDTH = 1200
DEADLINE_S = 600.0
SEEN_S = 15.0
"""How long the live page may take to show the dead disk."""


def main() -> None:
    """Take all pictures.

    Raises:
        SystemExit: there is no browser.
        CalledProcessError: a command failed, and has said why.
    """
    program = find_browser()
    if program is None:
        sys.exit("screenshots: no Chromium or Chrome on the path")
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        Browser(program, Path(name)) as browser,
    ):
        folder = Path(name)
        # The servers' user enters it.
        folder.chmod(0o755)
        os.environ["JBODLAB_STATE_DIR"] = str(folder / "state")
        with _cluster():
            _live_page(browser)
            _incident(browser, folder / "replay")
        _rehearsal(browser, folder / "rehearsal")


@contextlib.contextmanager
def _cluster() -> Iterator[None]:
    """Start a cluster with a topic."""
    _jbodlab("up", "--cluster", CLUSTER, "--kind", "folder")
    try:
        topic = ("topics", "create", "orders", "--partitions", "12")
        _jbodlab(*topic, "--cluster", CLUSTER)
        yield
    finally:
        _jbodlab("down", "--cluster", CLUSTER)


def _live_page(browser: Browser) -> None:
    """The page after a disk died."""
    command = [*PROGRAM, "ui", "--cluster", CLUSTER, "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as page:
        try:
            assert page.stdout is not None
            browser.open(json.loads(page.stdout.readline())["url"], WIDTH)
            _jbodlab("inject", "permission", "broker-2/1", "--cluster", CLUSTER)
            _wait_for(browser, "document.body.textContent.includes('Permission denied')")
            browser.screenshot(IMAGES / "live-page.png", 0, WIDTH, 900)
        finally:
            page.send_signal(signal.SIGINT)


def _incident(browser: Browser, results: Path) -> None:
    """The page of the replay, at its incidents."""
    _jbodlab("replay", "--cluster", CLUSTER, "--results", str(results))
    browser.open(results / "report.html", WIDTH)
    top = browser.value("document.querySelector('#incidents').offsetTop")
    browser.screenshot(IMAGES / "incident.png", int(top), WIDTH, 700)


def _rehearsal(browser: Browser, results: Path) -> None:
    """The report of a shipped plan."""
    _jbodlab("rehearse", PLAN, "--results", str(results))
    browser.open(results / "report.html", WIDTH)
    browser.screenshot(IMAGES / "rehearsal.png", 0, WIDTH, 900)


def _wait_for(browser: Browser, condition: str) -> None:
    end = time.monotonic() + SEEN_S
    while not browser.value(condition):
        if time.monotonic() > end:
            sys.exit(f"screenshots: not within {SEEN_S:g} s: {condition}")
        time.sleep(0.1)
    browser.settle()


def _jbodlab(*words: str) -> None:
    command = [*PROGRAM, *words]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=DEADLINE_S, check=True)


if __name__ == "__main__":
    main()
