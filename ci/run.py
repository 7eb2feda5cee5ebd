"""Runs a command beside a cluster, and keeps what a page of results needs: the step of CI.

JBODLAB_COMMAND is run by bash and finds the cluster by JBODLAB_URL, JBODLAB_BOOTSTRAP and
JBODLAB_TOKEN. It writes JUnit files into the folder JBODLAB_RESULTS, where the log of the cluster,
the report of its metadata log and the pages of its rehearsals are laid beside them.
JBODLAB_OPTIONS are options of `jbodlab serve`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

REPORT_DEADLINE_S = 300
END_DEADLINE_S = 60


def main() -> int:
    """Return the exit code of the command, or 1 where no cluster can be started."""
    results = Path(os.environ.get("JBODLAB_RESULTS", "jbodlab-results")).resolve()
    results.mkdir(parents=True, exist_ok=True)
    options = shlex.split(os.environ.get("JBODLAB_OPTIONS", ""))
    log = results / "cluster.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            ["jbodlab", "serve", "--output", "json", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as served,
    ):
        assert served.stdout is not None
        try:
            # `serve` itself gives up where its cluster does not start in time.
            line = served.stdout.readline()
            if not line:
                print(log.read_text(), file=sys.stderr)
                return 1
            return _beside(json.loads(line), results)
        finally:
            served.terminate()
            try:
                served.wait(END_DEADLINE_S)
            except subprocess.TimeoutExpired:
                # What is left then ends with it.
                served.kill()


def _beside(found: dict[str, str], results: Path) -> int:
    url = found["url"].partition("#")[0]
    variables = {
        "JBODLAB_URL": url,
        "JBODLAB_BOOTSTRAP": found["bootstrap"],
        "JBODLAB_TOKEN": found["token"],
        "JBODLAB_RESULTS": str(results),
    }
    command = ["bash", "-euo", "pipefail", "-c", os.environ["JBODLAB_COMMAND"]]
    done = subprocess.run(command, env={**os.environ, **variables}, check=False)
    pages = {"report": "report"}
    for run in json.loads(_get(url, "rehearsals", found["token"]) or b"[]"):
        pages[f"rehearsal-{run['id']}"] = f"rehearsals/{run['id']}/page"
    for name, path in pages.items():
        if page := _get(url, path, found["token"]):
            (results / f"{name}.html").write_bytes(page)
    return done.returncode


def _get(url: str, path: str, token: str) -> bytes:
    """Return an answer of the API; empty where it is refused, which is told."""
    request = urllib.request.Request(f"{url}v1/{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=REPORT_DEADLINE_S) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        print(f"no {path}: {error.read().decode(errors='replace')}", file=sys.stderr)
    except OSError as error:
        print(f"no {path}: {error}", file=sys.stderr)
    return b""


if __name__ == "__main__":
    sys.exit(main())
