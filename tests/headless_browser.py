"""A headless Chromium, driven through its debugging pipe; nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
DEADLINE_S = 60.0


def find_browser() -> str | None:
    """Return the path of a browser of this family, None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser; what went wrong in it is kept in `errors`."""

    def __init__(self, program: str, folder: Path) -> None:
        commands, self._to = os.pipe()
        self._from, events = os.pipe()
        # The browser wants its pipe at the descriptors 3 and 4.
        arguments = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        shell = f'exec "$@" 3<&{commands} 4>&{events}'
        with (folder / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", shell, "browser", *arguments],
                pass_fds=(commands, events),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        os.close(commands)
        os.close(events)
        self._number = 0
        self._bytes = b""
        self._session: str | None = None
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._loaded = False

    def __enter__(self) -> Self:
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Run one command of the protocol and return its result."""
        self._number += 1
        message: dict[str, object] = {
            "id": self._number,
            "method": method,
            "params": parameters,
        }
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                if "error" in found:
                    raise AssertionError(f"{method}: {found['error']}")
                return dict(found["result"])
            self._note(found)

    def open(self, page: Path | str, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Open a file or URL in a window of this size, and wait until it is loaded and drawn."""
        url = page if isinstance(page, str) else page.absolute().as_uri()
        self.errors.clear()
        self.requests.clear()
        self.resize(width, height)
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self._loaded = False
        self.call("Page.navigate", url=url)
        while not self._loaded:
            self._note(self._read())
        self.settle()

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def settle(self) -> None:
        """Wait until what was asked to be drawn is drawn."""
        frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.value(f"{frame}.then(() => 1)")

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page, or of its promise."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)
        self.settle()

    def touch(self, kind: str, *points: tuple[float, float]) -> None:
        places = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=places)
        self.settle()

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def key(self, key: str) -> None:
        """Press a key that does something, as a keyboard does: with its code and its text."""
        code = {"Tab": 9, "Enter": 13, " ": 32}[key]
        text = {"Enter": "\r", " ": " "}.get(key)
        more = {"text": text} if text else {}
        known = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", **known, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)
        self.settle()

    def screenshot(self, path: Path, top: int, width: int, height: int) -> None:
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Page.loadEventFired":
                self._loaded = True
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"]))
            case "Log.entryAdded":
                self.errors.append(json.dumps(parameters["entry"]))
            case "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(parameters["args"]))
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._from, 1 << 16)
            assert more, "the browser has ended"
            self._bytes += more
        message, _, self._bytes = self._bytes.partition(b"\0")
        return dict(json.loads(message))
