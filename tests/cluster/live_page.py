"""The live page of a cluster, as a browser asks for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lab.cluster import wait_for
from tests.cluster.staying import Staying

TIMEOUT_S = 60


class Page(NamedTuple):
    """A running `jbodlab ui`."""

    url: str
    port: int
    token: str
    process: subprocess.Popen[str]

    def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        with contextlib.closing(connection):
            told = {name.replace("_", "-"): value for name, value in headers.items()}
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, told)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def get(self, path: str) -> Any:
        status, _, body = self.ask("GET", path, Authorization=f"Bearer {self.token}")
        assert status == 200, body
        return json.loads(body)

    def state(self) -> dict[str, Any]:
        with self.events() as patch:
            return patch()

    def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        good = {
            "Origin": f"http://127.0.0.1:{self.port}",
            "Content_Type": "application/json",
            "Authorization": f"Bearer {self.token}",
        }
        status, _, answer = self.ask("POST", path, body, **{**good, **headers})
        return status, json.loads(answer)

    def directory(self, broker: int, number: int) -> dict[str, Any]:
        return self.state()["sections"]["brokers"][broker - 1]["log_dirs"][number - 1]

    @contextlib.contextmanager
    def events(self, last_id: str = "") -> Iterator[Callable[[], dict[str, Any]]]:
        """A stream, as a function that returns its next patch."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {self.token}", "Last-Event-ID": last_id}
            connection.request("GET", "/v1/events", headers=headers)
            with connection.getresponse() as answer:
                assert answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"

                def patch() -> dict[str, Any]:
                    while not (line := answer.readline()).startswith(b"data: "):
                        assert line, "the stream has ended"
                    return json.loads(line.removeprefix(b"data: "))

                yield patch


@contextlib.contextmanager
def served(cluster: Staying, *words: str) -> Iterator[Page]:
    with (cluster.state_dir / "page.err").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "jbodlab", "--output", "json", "ui", *words],
            env=cluster.environment,
            cwd=cluster.state_dir,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdout is not None
    with process:
        try:
            url = json.loads(process.stdout.readline())["url"]
            parts = urllib.parse.urlsplit(url)
            token = parts.fragment.removeprefix("token=")
            assert parts.port is not None
            page = Page(url, parts.port, token, process)
            wait_for("a page with brokers", lambda: "brokers" in page.state()["sections"])
            yield page
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(TIMEOUT_S)
